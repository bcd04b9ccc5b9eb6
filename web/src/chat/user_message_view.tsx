import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { CopyButton } from '../elements/copy_button';
import { IconButton } from '../elements/icons';
import { isReplying, resay } from './chat_session';
import type { UserMessage } from './conversation';
import { fitHeight, sendsOn } from './text_entry';

export function UserMessageView({ message, index }: { message: UserMessage; index: number }): VNode {
  const [draft, setDraft] = useState<string | null>(null);
  if (draft !== null) {
    return (
      <Editor
        text={draft}
        onChange={setDraft}
        onCancel={() => setDraft(null)}
        onSend={() => {
          setDraft(null);
          resay(index, draft);
        }}
      />
    );
  }
  return (
    <article class="said" aria-label="You">
      <p class="said-text">{message.text}</p>
      <div class="actions">
        <CopyButton text={message.text} label="Copy this message" />
        <IconButton
          icon="pencil"
          label="Edit this message"
          disabled={isReplying.value}
          onClick={() => setDraft(message.text)}
        />
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
          if (event.key === 'Escape') props.onCancel();
          if (!sendsOn(event)) return;
          event.preventDefault();
          props.onSend();
        }}
      />
      <div class="editor-buttons">
        <span>What followed is dropped.</span>
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
