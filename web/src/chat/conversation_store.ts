/** The conversations and settings of this browser: signals, written through to localStorage. */
import { computed, effect, signal } from '@preact/signals';
import { apiKey } from '../api/api_key';
import { type Conversation, kUntitled, newConversation } from './conversation';
import { kDefaultSettings, type Settings } from './settings';

const kConversationsKey = 'baleen.conversations';
const kCurrentKey = 'baleen.current';
const kSettingsKey = 'baleen.settings';
const kApiKeyKey = 'baleen.api_key';
/** Tokens arrive faster than it makes sense to write. */
const kWriteDelayMs = 500;

function read<T>(key: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(key);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

/** False when the browser refuses: private mode, or no room left. */
export const isSaved = signal(true);

function write(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    isSaved.value = true;
  } catch {
    isSaved.value = false;
  }
}

/** A page that was closed in the middle of a reply left it open. */
function closed(conversation: Conversation): Conversation {
  return {
    ...conversation,
    messages: conversation.messages.map((message) =>
      message.role === 'assistant' && message.ending === null ? { ...message, ending: 'stopped' } : message,
    ),
  };
}

/** Newest first; never empty. */
export const conversations = signal<Conversation[]>(read<Conversation[]>(kConversationsKey, []).map(closed));
if (conversations.value.length === 0) conversations.value = [newConversation(Date.now())];

export const currentId = signal<string>(read(kCurrentKey, ''));

export const current = computed<Conversation>(
  () =>
    conversations.value.find(({ id }) => id === currentId.value) ?? (conversations.value[0] as Conversation),
);

export const settings = signal<Settings>({
  ...kDefaultSettings,
  ...read<Partial<Settings>>(kSettingsKey, {}),
});

export function changeSettings(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes };
}

/** Replaces a conversation by its newer self; one that was deleted meanwhile stays deleted. */
export function keep(conversation: Conversation): void {
  conversations.value = conversations.value.map((other) =>
    other.id === conversation.id ? conversation : other,
  );
}

/** Opens an empty conversation: the one that is there, or a new one. */
export function startConversation(): void {
  const empty = conversations.value.find(
    ({ messages, title }) => messages.length === 0 && title === kUntitled,
  );
  const fresh = empty ?? newConversation(Date.now());
  conversations.value = [fresh, ...conversations.value.filter((other) => other !== fresh)];
  currentId.value = fresh.id;
}

export function deleteConversation(id: string): void {
  conversations.value = conversations.value.filter((other) => other.id !== id);
  if (conversations.value.length === 0) startConversation();
}

apiKey.value = read(kApiKeyKey, '');

/** Writes what changes from now on, and what is still to be written when the page goes. */
export function persist(): void {
  let timer: number | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    write(kConversationsKey, conversations.value);
  };
  effect(() => {
    conversations.value;
    timer ??= window.setTimeout(flush, kWriteDelayMs);
  });
  effect(() => write(kCurrentKey, currentId.value));
  effect(() => write(kSettingsKey, settings.value));
  effect(() => write(kApiKeyKey, apiKey.value));
  window.addEventListener('pagehide', flush);
}
