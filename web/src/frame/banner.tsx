import type { VNode } from 'preact';
import { clearRefusal, isLost, look, refusal } from '../api/connection';
import { IconButton } from '../elements/icons';

/**
 * One line at the top while the server is away, or after it has refused to name its model. What it says of a reply
 * stands at that reply, and there alone.
 */
export function Banner(): VNode | null {
  if (isLost.value) {
    return (
      <div class="banner" role="alert">
        <p>The server does not answer. This page looks for it every second and goes on when it is back.</p>
        <button type="button" onClick={() => void look()}>
          Look now
        </button>
      </div>
    );
  }
  if (refusal.value === null) return null;
  return (
    <div class="banner" role="alert">
      <p>{refusal.value}</p>
      <IconButton icon="close" label="Dismiss" onClick={clearRefusal} />
    </div>
  );
}
