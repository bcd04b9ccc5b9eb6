import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from '../elements/icons';
import { Markdown } from '../markdown/markdown';
import type { Reply } from './conversation';
import { seconds } from './figures';

/** Open while it streams, folded when the answer begins, and from then on as the user wants it. */
export function Thinking({ reply }: { reply: Reply }): VNode {
  const [wanted, setWanted] = useState<boolean | null>(null);
  const thinks = reply.ending === null && reply.figures.reasoning === null;
  const open = wanted ?? thinks;
  const duration = reply.figures.reasoning;
  return (
    <section class="thinking" aria-label="Thinking">
      <button type="button" class="thinking-title" aria-expanded={open} onClick={() => setWanted(!open)}>
        <Icon name="fold" size={14} />
        {thinks ? <span class="thinks">Thinking</span> : <span>Thought</span>}
        {!thinks && duration !== null && <span> for {seconds(duration)}</span>}
      </button>
      {open && (
        <div class="thinking-text">
          <Markdown text={reply.reasoning} />
        </div>
      )}
    </section>
  );
}
