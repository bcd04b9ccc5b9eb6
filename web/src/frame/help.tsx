import type { VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { IconButton } from '../elements/icons';
import { helpOpen } from './layout_state';
import { kShortcuts } from './shortcuts';

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
/** What the message field does with keys. */
const kWriting = [
  { keys: ['Enter'], label: 'Send' },
  { keys: ['Shift', 'Enter'], label: 'New line' },
];

/** The sheet of keys, and what else is worth knowing once. */
export function Help(): VNode | null {
  return helpOpen.value ? <Sheet /> : null;
}

function Sheet(): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const close = () => {
    helpOpen.value = false;
  };
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-label="Keys"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <header>
        <h2>Keys</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      <dl>
        {[...kWriting, ...kShortcuts].map(({ keys, label }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>
              {keys.map((key) => (
                <kbd key={key}>{key === 'Mod' ? (isMac ? '⌘' : 'Ctrl') : key}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
      <p>
        Text files and PDFs can be dropped on the conversation or pasted into the message. The arrow keys walk
        through the tree of the machine view.
      </p>
      <p>
        <a href="/notices.txt" target="_blank" rel="noopener">
          Third-party notices
        </a>
      </p>
    </dialog>
  );
}
