import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { IconButton } from '../elements/icons';
import { kUntitled, type Conversation } from './conversation';
import { current, currentId, deleteConversation, keep } from './conversation_store';
import { exportConversation } from './export';
import type { Finding } from './search';

interface EntryProps {
  conversation: Conversation;
  excerpt: Finding['excerpt'];
  onOpen: () => void;
}

export function ConversationEntry({ conversation, excerpt, onOpen }: EntryProps): VNode {
  const [mode, setMode] = useState<'shown' | 'renamed' | 'deleted'>('shown');
  if (mode === 'renamed') return <Rename conversation={conversation} onDone={() => setMode('shown')} />;
  if (mode === 'deleted') {
    return (
      <li class="entry entry-ask">
        <span>Delete for good?</span>
        <button type="button" onClick={() => setMode('shown')}>
          No
        </button>
        <button type="button" class="danger" onClick={() => deleteConversation(conversation.id)}>
          Delete
        </button>
      </li>
    );
  }
  const { id, title } = conversation;
  const isCurrent = current.value.id === id;
  return (
    <li class={`entry ${isCurrent ? 'entry-current' : ''}`}>
      <button
        type="button"
        class="entry-title"
        title={title}
        aria-current={isCurrent ? 'true' : undefined}
        onClick={() => {
          currentId.value = id;
          onOpen();
        }}
      >
        {title}
        {excerpt && (
          <small>
            {excerpt.before}
            <mark>{excerpt.match}</mark>
            {excerpt.after}
          </small>
        )}
      </button>
      <div class="actions">
        <IconButton icon="pencil" label={`Rename ${title}`} onClick={() => setMode('renamed')} />
        <IconButton icon="down" label={`Export ${title}`} onClick={() => exportConversation(conversation)} />
        <IconButton icon="bin" label={`Delete ${title}`} onClick={() => setMode('deleted')} />
      </div>
    </li>
  );
}

function Rename({ conversation, onDone }: { conversation: Conversation; onDone: () => void }): VNode {
  const [title, setTitle] = useState(conversation.title);
  const rename = () => {
    keep({ ...conversation, title: title.trim() || kUntitled, changed: Date.now() });
    onDone();
  };
  return (
    <li class="entry">
      <input
        class="entry-title"
        aria-label="Title"
        value={title}
        ref={(input) => input?.focus()}
        onInput={(event) => setTitle(event.currentTarget.value)}
        onBlur={rename}
        onKeyDown={(event) => {
          if (event.key === 'Enter') rename();
          if (event.key === 'Escape') {
            event.stopPropagation();
            onDone();
          }
        }}
      />
    </li>
  );
}
