import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { CopyButton } from '../elements/copy_button';
import { IconButton } from '../elements/icons';
import { isBusy, resay } from './chat_session';
import type { Turn, UserMessage } from './conversation';
import { FileChips } from './file_chips';
import { fitHeight, sendsOn } from './text_entry';
import { VersionSwitch, type Versions } from './version_switch';

interface UserMessageProps {
  turn: Turn;
  message: UserMessage;
  versions: Versions;
}

export function UserMessageView({ turn, message, versions }: UserMessageProps): VNode {
  const [draft, setDraft] = useState<string | null>(null);
  if (draft !== null) {
    return (
      <Editor
        text={draft}
        onChange={setDraft}
        onCancel={() => setDraft(null)}
        onSend={() => {
          setDraft(null);
          resay(turn.id, draft);
        }}
      />
    );
  }
  return (
    <article class="said" aria-label="You">
      <FileChips files={message.files ?? []} />
      {message.text && <p class="said-text">{message.text}</p>}
      <div class="said-foot">
        <div class="actions">
          <time dateTime={new Date(turn.at).toISOString()}>{new Date(turn.at).toLocaleString()}</time>
          <CopyButton text={message.text} label="Copy this message" />
          <IconButton
            icon="pencil"
            label="Edit this message"
            disabled={isBusy.value}
            onClick={() => setDraft(message.text)}
          />
        </div>
        <VersionSwitch versions={versions} of="message" />
      </div>
    </article>
  );
}

function Editor(props: {
  text: string;
  onChange: (text: string) => void;
  onCancel: () => void;
  onSend: () => void;
}): VNode {
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => fitHeight(area.current), [props.text]);
  useLayoutEffect(() => area.current?.focus(), []);
  return (
    <form
      class="said editor"
      onSubmit={(event) => {
        event.preventDefault();
        props.onSend();
      }}
    >
      <textarea
        ref={area}
        value={props.text}
        aria-label="Edit your message"
        onInput={(event) => props.onChange(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            props.onCancel();
          }
          if (!sendsOn(event)) return;
          event.preventDefault();
          props.onSend();
        }}
      />
      <div class="editor-buttons">
        <span>What followed stays as another version.</span>
        <button type="button" onClick={props.onCancel}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={props.text.trim() === ''}>
          Send
        </button>
      </div>
    </form>
  );
}
