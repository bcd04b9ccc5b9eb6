import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { IconButton } from '../elements/icons';
import { isReplying, say, stop } from './chat_session';
import { fitHeight, sendsOn } from './text_entry';

/** What is written and not yet sent, by conversation: it outlives a look at another one. */
const drafts = new Map<string, string>();

export function Composer({ conversationId }: { conversationId: string }): VNode {
  const [text, setShownText] = useState(drafts.get(conversationId) ?? '');
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => fitHeight(area.current), [text]);
  useLayoutEffect(() => area.current?.focus({ preventScroll: true }), []);

  const setText = (next: string) => {
    drafts.set(conversationId, next);
    setShownText(next);
  };
  const send = () => {
    if (isReplying.value || text.trim() === '') return;
    say(text);
    setText('');
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div class="composer-box">
        <textarea
          ref={area}
          rows={1}
          value={text}
          placeholder="Message"
          aria-label="Message"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (!sendsOn(event)) return;
            event.preventDefault();
            send();
          }}
        />
        {isReplying.value ? (
          <IconButton class="send" icon="stop" label="Stop" onClick={stop} />
        ) : (
          <IconButton class="send" icon="send" label="Send" onClick={send} disabled={text.trim() === ''} />
        )}
      </div>
      <p class="composer-hint">
        <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a line, <kbd>Esc</kbd> stops
      </p>
    </form>
  );
}
