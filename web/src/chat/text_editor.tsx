import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { fitHeight, sendsOn } from './text_entry';

interface TextEditorProps {
  text: string;
  /** Of the field. */
  label: string;
  /** What happens to what was there. */
  note: string;
  /** Enter is done; otherwise it starts a line, and Ctrl or Command with Enter is done. */
  enterIsDone?: boolean;
  done: { label: string; act: (text: string) => void };
  /** A second button. */
  other?: { label: string; act: (text: string) => void };
  onCancel: () => void;
}

/** A message or reply while it is changed. */
export function TextEditor({
  text,
  label,
  note,
  enterIsDone = false,
  done,
  other,
  onCancel,
}: TextEditorProps): VNode {
  const [draft, setDraft] = useState(text);
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => fitHeight(area.current), [draft]);
  useLayoutEffect(() => area.current?.focus(), []);
  const isEmpty = draft.trim() === '';
  const finish = () => {
    if (!isEmpty) done.act(draft);
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        finish();
      }}
    >
      <textarea
        ref={area}
        value={draft}
        aria-label={label}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            onCancel();
          }
          const isDone = enterIsDone
            ? sendsOn(event)
            : event.key === 'Enter' && (event.ctrlKey || event.metaKey);
          if (!isDone) return;
          event.preventDefault();
          finish();
        }}
      />
      <div class="editor-buttons">
        <span>{note}</span>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        {other && (
          <button type="button" disabled={isEmpty} onClick={() => other.act(draft)}>
            {other.label}
          </button>
        )}
        <button type="submit" class="primary" disabled={isEmpty}>
          {done.label}
        </button>
      </div>
    </form>
  );
}
