import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { CopyButton } from '../elements/copy_button';
import { IconButton } from '../elements/icons';
import { Markdown } from '../markdown/markdown';
import { isReplying, regenerate } from './chat_session';
import type { Reply } from './conversation';
import { figureLine } from './figures';
import { Thinking } from './thinking';
import { ToolCalls } from './tool_calls';

const kEndingNotes: Partial<Record<NonNullable<Reply['ending']>, string>> = {
  length: 'Cut at the longest reply',
  stopped: 'Stopped',
};

interface ReplyViewProps {
  reply: Reply;
  index: number;
  isLast: boolean;
}

/** Replies that are over are not rendered again while another streams. */
export const ReplyView = memo(({ reply, index, isLast }: ReplyViewProps): VNode => {
  const streams = reply.ending === null;
  const isEmpty = !reply.text && !reply.reasoning && reply.calls.length === 0;
  return (
    <article class="reply" aria-label="Reply">
      {reply.reasoning && <Thinking reply={reply} />}
      {streams && isEmpty && <p class="waiting" aria-label="Waiting for the first token" />}
      {reply.text && <Markdown text={reply.text} />}
      {reply.calls.length > 0 && <ToolCalls reply={reply} index={index} isLast={isLast} />}
      {reply.failure !== null && <p class="failure">{reply.failure}</p>}
      {!streams && <Footer reply={reply} index={index} />}
    </article>
  );
});

function Footer({ reply, index }: { reply: Reply; index: number }): VNode {
  const note = reply.ending && kEndingNotes[reply.ending];
  return (
    <footer class="reply-footer">
      <div class="actions">
        {reply.text && <CopyButton text={reply.text} label="Copy this reply" />}
        <IconButton
          icon="again"
          label={reply.ending === 'failed' ? 'Retry' : 'Regenerate'}
          disabled={isReplying.value}
          onClick={() => regenerate(index)}
        />
      </div>
      <ul class="figures" aria-label="Figures of this reply">
        {note && <li class="note">{note}</li>}
        {figureLine(reply.figures).map(({ label, text }) => (
          <li key={label} title={label}>
            {text}
          </li>
        ))}
      </ul>
    </footer>
  );
}
