import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { CopyButton } from '../elements/copy_button';
import { IconButton } from '../elements/icons';
import { Markdown } from '../markdown/markdown';
import { canContinue, continueReply, editReply, isBusy, regenerate } from './chat_session';
import type { Reply } from './conversation';
import { figureLine } from './figures';
import { TextEditor } from './text_editor';
import { Thinking } from './thinking';
import { ToolCalls } from './tool_calls';
import { TurnMenu } from './turn_menu';
import { VersionSwitch, type Versions } from './version_switch';

const kEndingNotes: Partial<Record<NonNullable<Reply['ending']>, string>> = {
  length: 'Cut at the longest reply',
  repetition: 'Ended: it repeated itself',
  stopped: 'Stopped',
};

interface ReplyViewProps {
  id: string;
  reply: Reply;
  isLast: boolean;
  versions: Versions;
}

export function ReplyView({ id, reply, isLast, versions }: ReplyViewProps): VNode {
  const [isEdited, setIsEdited] = useState(false);
  const streams = reply.ending === null;
  const isEmpty = !reply.text && !reply.reasoning && reply.calls.length === 0;
  return (
    <article class="reply" aria-label="Reply">
      {reply.reasoning && <Thinking reply={reply} />}
      {streams && isEmpty && <p class="waiting" aria-label="Waiting for the first token" />}
      {streams && isEmpty && reply.figures.prefilled !== undefined && (
        <p class="prefilled">Reading the prompt: {Math.floor(100 * reply.figures.prefilled)}%</p>
      )}
      {isEdited ? (
        <ReplyEditor id={id} reply={reply} isLast={isLast} onDone={() => setIsEdited(false)} />
      ) : (
        reply.text && <Markdown text={reply.text} />
      )}
      {reply.calls.length > 0 && <ToolCalls reply={reply} id={id} isLast={isLast} />}
      {reply.failure !== null && (
        <p class="failure" role={isLast ? 'alert' : undefined}>
          {reply.failure}
        </p>
      )}
      {!streams && !isEdited && (
        <Footer id={id} reply={reply} isLast={isLast} versions={versions} onEdit={() => setIsEdited(true)} />
      )}
    </article>
  );
}

function ReplyEditor(props: { id: string; reply: Reply; isLast: boolean; onDone: () => void }): VNode {
  const { id, reply, isLast, onDone } = props;
  const save = (text: string) => {
    editReply(id, text);
    onDone();
  };
  const onward = (text: string) => {
    save(text);
    continueReply(id);
  };
  const canGoOn = isLast && reply.calls.length === 0;
  return (
    <TextEditor
      text={reply.text}
      label="Edit this reply"
      note="The model will take these for its own words."
      done={canGoOn ? { label: 'Save and continue', act: onward } : { label: 'Save', act: save }}
      {...(canGoOn ? { other: { label: 'Save', act: save } } : {})}
      onCancel={onDone}
    />
  );
}

function Footer({ id, reply, isLast, versions, onEdit }: ReplyViewProps & { onEdit: () => void }): VNode {
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
        <TurnMenu
          id={id}
          of="reply"
          own={[{ icon: 'pencil', label: 'Edit', act: onEdit, disabled: isBusy.value }]}
        />
      </div>
      {isLast && canContinue(reply) && (
        <button type="button" class="continue" disabled={isBusy.value} onClick={() => continueReply(id)}>
          Continue this reply
        </button>
      )}
      <ul class="figures" aria-label="Figures of this reply">
        {note && <li class="note">{note}</li>}
        {reply.edited && <li class="note">Edited</li>}
        {figureLine(reply.figures).map(({ label, text }) => (
          <li key={label} title={label}>
            {text}
          </li>
        ))}
      </ul>
    </footer>
  );
}
