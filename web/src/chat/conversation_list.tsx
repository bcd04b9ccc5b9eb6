import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { IconButton, Icon } from '../elements/icons';
import { kUntitled, type Conversation } from './conversation';
import {
  conversations,
  current,
  currentId,
  deleteConversation,
  isSaved,
  keep,
  startConversation,
} from './conversation_store';
import { exportConversation } from './export';

export function ConversationList({ onOpen }: { onOpen: () => void }): VNode {
  return (
    <aside class="panel list" aria-label="Conversations">
      <button
        type="button"
        class="new"
        onClick={() => {
          startConversation();
          onOpen();
        }}
      >
        <Icon name="plus" />
        New conversation
      </button>
      <ul>
        {conversations.value.map((conversation) => (
          <Entry key={conversation.id} conversation={conversation} onOpen={onOpen} />
        ))}
      </ul>
      {!isSaved.value && <p class="list-note">This browser keeps no more: its storage is full or closed.</p>}
    </aside>
  );
}

function Entry({ conversation, onOpen }: { conversation: Conversation; onOpen: () => void }): VNode {
  const [title, setTitle] = useState<string | null>(null);
  const [asksDelete, setAsksDelete] = useState(false);
  const isCurrent = current.value.id === conversation.id;

  if (title !== null) {
    const rename = () => {
      keep({ ...conversation, title: title.trim() || kUntitled });
      setTitle(null);
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
            if (event.key === 'Escape') setTitle(null);
          }}
        />
      </li>
    );
  }
  if (asksDelete) {
    return (
      <li class="entry entry-ask">
        <span>Delete for good?</span>
        <button type="button" onClick={() => setAsksDelete(false)}>
          No
        </button>
        <button type="button" class="danger" onClick={() => deleteConversation(conversation.id)}>
          Delete
        </button>
      </li>
    );
  }
  return (
    <li class={`entry ${isCurrent ? 'entry-current' : ''}`}>
      <button
        type="button"
        class="entry-title"
        aria-current={isCurrent ? 'true' : undefined}
        onClick={() => {
          currentId.value = conversation.id;
          onOpen();
        }}
      >
        {conversation.title}
      </button>
      <div class="actions">
        <IconButton
          icon="pencil"
          label={`Rename ${conversation.title}`}
          onClick={() => setTitle(conversation.title)}
        />
        <IconButton
          icon="down"
          label={`Export ${conversation.title}`}
          onClick={() => exportConversation(conversation)}
        />
        <IconButton icon="bin" label={`Delete ${conversation.title}`} onClick={() => setAsksDelete(true)} />
      </div>
    </li>
  );
}
