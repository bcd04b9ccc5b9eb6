import type { VNode } from 'preact';
import { IconButton, Icon } from '../elements/icons';
import type { TextFile } from './conversation';

/** Files as a row of names; with `onRemove` each can be taken away. */
export function FileChips(props: {
  files: readonly TextFile[];
  onRemove?: (index: number) => void;
}): VNode | null {
  const { files, onRemove } = props;
  if (files.length === 0) return null;
  return (
    <ul class="chips" aria-label="Attached files">
      {files.map(({ name, text }, index) => (
        <li key={`${index}/${name}`} title={`${name}, ${text.length.toLocaleString('en')} characters`}>
          {onRemove ? (
            <>
              <Icon name="clip" size={14} />
              <span>{name}</span>
              <IconButton icon="close" label={`Remove ${name}`} onClick={() => onRemove(index)} />
            </>
          ) : (
            <details>
              <summary>
                <Icon name="clip" size={14} />
                <span>{name}</span>
              </summary>
              <pre tabIndex={0}>{text}</pre>
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
