import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { KeptEntry } from '../api/kept_conversations';
import { Icon } from '../elements/icons';
import { MenuButton, type MenuItem } from '../elements/menu';
import { forked, kUntitled, type Conversation } from './conversation';
import { current, deleteConversation, keep, open, show } from './conversation_store';
import { exportConversation } from './export';
import type { Finding } from './search';
import {
  deleteOnServer,
  hasCopy,
  keepOnServer,
  openFromServer,
  removeCopy,
  serverKeeps,
} from './server_copies';

interface EntryProps {
  conversation: Conversation;
  excerpt: Finding['excerpt'];
  onOpen: () => void;
}

export function ConversationEntry({ conversation, excerpt, onOpen }: EntryProps): VNode {
  const [mode, setMode] = useState<'shown' | 'renamed' | 'deleted'>('shown');
  if (mode === 'renamed') return <Rename conversation={conversation} onDone={() => setMode('shown')} />;
  if (mode === 'deleted') {
    return <AskDeletion onNo={() => setMode('shown')} onYes={() => deleteConversation(conversation.id)} />;
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
          show(id);
          onOpen();
        }}
      >
        {hasCopy(id) && <Icon name="server" size={14} />}
        {title}
        {excerpt && (
          <small>
            {excerpt.before}
            <mark>{excerpt.match}</mark>
            {excerpt.after}
          </small>
        )}
      </button>
      <MenuButton
        label={`More of ${title}`}
        items={[
          { icon: 'pencil', label: 'Rename', act: () => setMode('renamed') },
          { icon: 'fork', label: 'Fork', act: () => open(forked(conversation, null, Date.now())) },
          ...serverItems(conversation),
          { icon: 'down', label: 'Export', act: () => exportConversation(conversation) },
          { icon: 'bin', label: 'Delete', act: () => setMode('deleted'), danger: true },
        ]}
      />
    </li>
  );
}

/** What the server may do with it, where it keeps conversations. */
function serverItems(conversation: Conversation): MenuItem[] {
  if (!serverKeeps.value) return [];
  const { id, turns } = conversation;
  return hasCopy(id)
    ? [{ icon: 'server', label: 'Remove from the server', act: () => void removeCopy(id) }]
    : [
        {
          icon: 'server',
          label: 'Keep on the server',
          act: () => void keepOnServer(conversation),
          disabled: turns.length === 0,
        },
      ];
}

/** A conversation that the server has and this browser does not. */
export function ServerEntry({ entry, onOpen }: { entry: KeptEntry; onOpen: () => void }): VNode {
  const [asks, setAsks] = useState(false);
  const { id, title } = entry;
  if (asks) return <AskDeletion onNo={() => setAsks(false)} onYes={() => void deleteOnServer(id)} />;
  return (
    <li class="entry">
      <button
        type="button"
        class="entry-title"
        title={title}
        onClick={() => void openFromServer(id).then(onOpen)}
      >
        {title}
      </button>
      <MenuButton
        label={`More of ${title}`}
        items={[{ icon: 'bin', label: 'Delete on the server', act: () => setAsks(true), danger: true }]}
      />
    </li>
  );
}

function AskDeletion({ onNo, onYes }: { onNo: () => void; onYes: () => void }): VNode {
  return (
    <li class="entry entry-ask">
      <span>Delete for good?</span>
      <button type="button" onClick={onNo}>
        No
      </button>
      <button type="button" class="danger" onClick={onYes}>
        Delete
      </button>
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
