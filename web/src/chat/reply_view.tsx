import type { VNode } from 'preact';
import { CopyButton } from '../elements/copy_button';
import { IconButton } from '../elements/icons';
import { Markdown } from '../markdown/markdown';
import { canContinue, continueReply, isBusy, regenerate } from './chat_session';
import type { Reply } from './conversation';
import { figureLine } from './figures';
import { Thinking } from './thinking';
import { ToolCalls } from './tool_calls';
import { VersionSwitch, type Versions } from './version_switch';

const kEndingNotes: Partial<Record<NonNullable<Reply['ending']>, string>> = {
  length: 'Cut at the longest reply',
  stopped: 'Stopped',
};

interface ReplyViewProps {
  id: string;
  reply: Reply;
  isLast: boolean;
  versions: Versions;
}

export function ReplyView({ id, reply, isLast, versions }: ReplyViewProps): VNode {
  const streams = reply.ending === null;
  const isEmpty = !reply.text && !reply.reasoning && reply.calls.length === 0;
  return (
    <article class="reply" aria-label="Reply">
      {reply.reasoning && <Thinking reply={reply} />}
      {streams && isEmpty && <p class="waiting" aria-label="Waiting for the first token" />}
      {streams && isEmpty && reply.figures.prefilled !== undefined && (
        <p class="prefilled">Reading the prompt: {Math.floor(100 * reply.figures.prefilled)}%</p>
      )}
      {reply.text && <Markdown text={reply.text} />}
      {reply.calls.length > 0 && <ToolCalls reply={reply} id={id} isLast={isLast} />}
      {reply.failure !== null && (
        <p class="failure" role={isLast ? 'alert' : undefined}>
          {reply.failure}
        </p>
      )}
      {!streams && <Footer id={id} reply={reply} isLast={isLast} versions={versions} />}
    </article>
  );
}

function Footer({ id, reply, isLast, versions }: ReplyViewProps): VNode {
  const note = reply.ending && kEndingNotes[reply.ending];
  return (
    <footer class="reply-footer">
      <VersionSwitch versions={versions} of="reply" />
      <div class="actions">
        {reply.text && <CopyButton text={reply.text} label="Copy this reply" />}
        <IconButton
          icon="again"
          label={reply.ending === 'failed' ? 'Retry' : 'Regenerate'}
          disabled={isBusy.value}
          onClick={() => regenerate(id)}
        />
      </div>
      {isLast && canContinue(reply) && (
        <button type="button" class="continue" disabled={isBusy.value} onClick={() => continueReply(id)}>
          Continue this reply
        </button>
      )}
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
