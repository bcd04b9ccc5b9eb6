import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { IconButton, Icon } from '../elements/icons';
import { ConversationEntry, ServerEntry } from './conversation_entry';
import { conversations, isSaved, startConversation } from './conversation_store';
import { groupByDate } from './date_groups';
import { importFile } from './import';
import { search } from './search';
import { onServerAlone, serverTrouble } from './server_copies';

/** Outlives the list, which a narrow screen closes. */
const query = signal('');

export const kSearchId = 'search-conversations';

export function ConversationList({ onOpen }: { onOpen: () => void }): VNode {
  const findings = new Map(
    search(conversations.value, query.value).map((finding) => [finding.conversation, finding.excerpt]),
  );
  const groups = groupByDate([...findings.keys()], Date.now());
  // Of those on the server the page knows the titles alone.
  const words = query.value.trim().toLowerCase();
  const found = onServerAlone.value.filter(({ title }) => title.toLowerCase().includes(words));
  return (
    <aside class="panel list" aria-label="Conversations">
      <div class="list-top">
        <button
          type="button"
          class="new"
          onClick={() => {
            startConversation();
            query.value = '';
            onOpen();
          }}
        >
          <Icon name="plus" />
          New conversation
        </button>
        <Import onOpen={onOpen} />
      </div>
      <label class="search">
        <Icon name="search" size={16} />
        <input
          id={kSearchId}
          type="search"
          placeholder="Search"
          aria-label="Search conversations"
          value={query.value}
          onInput={(event) => {
            query.value = event.currentTarget.value;
          }}
        />
      </label>
      {groups.map((group) => (
        <section key={group.label} aria-label={group.label}>
          <h2>{group.label}</h2>
          <ul>
            {group.conversations.map((conversation) => (
              <ConversationEntry
                key={conversation.id}
                conversation={conversation}
                excerpt={findings.get(conversation) ?? null}
                onOpen={onOpen}
              />
            ))}
          </ul>
        </section>
      ))}
      {found.length > 0 && (
        <section aria-label="On the server">
          <h2>On the server</h2>
          <ul>
            {found.map((entry) => (
              <ServerEntry key={entry.id} entry={entry} onOpen={onOpen} />
            ))}
          </ul>
        </section>
      )}
      {serverTrouble.value !== null && (
        <p class="invalid" role="alert">
          {serverTrouble.value}
        </p>
      )}
      {groups.length === 0 && found.length === 0 && <p class="list-note">Nothing found.</p>}
      {!isSaved.value && <p class="list-note">This browser keeps no more: its storage is full or closed.</p>}
    </aside>
  );
}

function Import({ onOpen }: { onOpen: () => void }): VNode {
  const picker = useRef<HTMLInputElement>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const read = async (file: File | undefined) => {
    if (!file) return;
    const problem = await importFile(file);
    setTrouble(problem);
    if (problem === null) onOpen();
  };
  return (
    <>
      <IconButton icon="up" label="Import a conversation" onClick={() => picker.current?.click()} />
      <input
        ref={picker}
        type="file"
        accept="application/json,.json"
        hidden
        onChange={({ currentTarget }) => {
          void read(currentTarget.files?.[0]);
          currentTarget.value = '';
        }}
      />
      {trouble !== null && (
        <p class="invalid" role="alert">
          {trouble}
        </p>
      )}
    </>
  );
}
