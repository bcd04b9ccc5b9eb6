import type { VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { IconButton } from '../elements/icons';
import { isBusy, isReplying, say, stop } from './chat_session';
import { attach, changeDraft, clearDraft, draftOf } from './composer_draft';
import { FileChips } from './file_chips';
import { fitHeight, sendsOn } from './text_entry';

export function Composer({ conversationId: id }: { conversationId: string }): VNode {
  const { text, files, reading, trouble } = draftOf(id);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => fitHeight(area.current), [text]);
  useLayoutEffect(() => area.current?.focus({ preventScroll: true }), []);

  const isEmpty = text.trim() === '' && files.length === 0;
  const send = () => {
    if (isBusy.value || isEmpty || reading.length > 0) return;
    say(text, files);
    clearDraft(id);
  };
  const onPaste = (event: ClipboardEvent) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    void attach(id, event.clipboardData.files);
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {trouble !== null && (
        <p class="composer-trouble" role="alert">
          {trouble}
        </p>
      )}
      <div class="composer-box">
        <FileChips
          files={files}
          onRemove={(index) => changeDraft(id, { files: files.filter((_, other) => other !== index) })}
        />
        {reading.length > 0 && (
          <p class="composer-reading" role="status">
            Reading {reading.join(', ')}
          </p>
        )}
        <div class="composer-line">
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            onChange={({ currentTarget }) => {
              void attach(id, [...(currentTarget.files ?? [])]);
              currentTarget.value = '';
            }}
          />
          <IconButton icon="clip" label="Attach text files or PDFs" onClick={() => picker.current?.click()} />
          <textarea
            ref={area}
            class="composer-text"
            rows={1}
            value={text}
            placeholder="Message"
            aria-label="Message"
            onInput={(event) => changeDraft(id, { text: event.currentTarget.value })}
            onPaste={onPaste}
            onKeyDown={(event) => {
              if (!sendsOn(event)) return;
              event.preventDefault();
              send();
            }}
          />
          {isReplying.value ? (
            <IconButton class="send" icon="stop" label="Stop" onClick={stop} />
          ) : (
            <IconButton
              class="send"
              icon="send"
              label="Send"
              onClick={send}
              disabled={isEmpty || isBusy.value || reading.length > 0}
            />
          )}
        </div>
      </div>
      <p class="composer-hint">
        <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a line, <kbd>?</kbd> shows all keys
      </p>
    </form>
  );
}
