import type { VNode } from 'preact';
import { retry } from '../chat/chat_session';
import { current } from '../chat/conversation_store';
import { clearRefusal, isLost, look, refusal } from '../api/connection';
import { IconButton } from '../elements/icons';

/** One line at the top while the server is away, or after it has refused something. */
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
  const last = current.value.messages.at(-1);
  return (
    <div class="banner" role="alert">
      <p>{refusal.value}</p>
      {last?.role === 'assistant' && last.ending === 'failed' && (
        <button type="button" onClick={retry}>
          Retry
        </button>
      )}
      <IconButton icon="close" label="Dismiss" onClick={clearRefusal} />
    </div>
  );
}
