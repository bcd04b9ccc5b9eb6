/** The keys of the page: one table that acts and that the help shows. */
import { isReplying, regenerateLast, stop } from '../chat/chat_session';
import { kSearchId } from '../chat/conversation_list';
import { conversations, current, show, startConversation } from '../chat/conversation_store';
import { groupByDate } from '../chat/date_groups';
import { helpOpen, listOpen, openView, toggleList, toggleSettings, view } from './layout_state';

export interface Shortcut {
  /** As the help shows them; "Mod" is Ctrl, or Command on a Mac. */
  keys: string[];
  label: string;
  matches: (event: KeyboardEvent) => boolean;
  /** False: the key keeps its usual meaning. */
  act: () => boolean | void;
}

const isPlain = (event: KeyboardEvent) =>
  !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);
const isMod = (event: KeyboardEvent) => (event.ctrlKey || event.metaKey) && !event.altKey;
const isAlt = (event: KeyboardEvent) => event.altKey && !event.ctrlKey && !event.metaKey;
/** By the place of the key, since Alt and Shift change what it writes. */
const atKey = (event: KeyboardEvent, code: string) => event.code === code;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
  );
}

/** After the view that was opened is on the page. */
function focusSoon(selector: string): void {
  requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus());
}

/** The conversation above or below in the list. */
function step(by: number): void {
  const order = groupByDate(conversations.value, Date.now()).flatMap((group) => group.conversations);
  const next = order[order.findIndex(({ id }) => id === current.value.id) + by];
  if (next) show(next.id);
}

export const kShortcuts: Shortcut[] = [
  {
    keys: ['Mod', 'Shift', 'O'],
    label: 'New conversation',
    matches: (event) => isMod(event) && event.shiftKey && atKey(event, 'KeyO'),
    act: () => {
      openView('chat');
      startConversation();
    },
  },
  {
    keys: ['Mod', 'K'],
    label: 'Search conversations',
    matches: (event) => isMod(event) && !event.shiftKey && atKey(event, 'KeyK'),
    act: () => {
      openView('chat');
      if (!listOpen.value) toggleList();
      focusSoon(`#${kSearchId}`);
    },
  },
  {
    keys: ['Alt', '↑'],
    label: 'Conversation above',
    matches: (event) => isAlt(event) && event.key === 'ArrowUp',
    act: () => step(-1),
  },
  {
    keys: ['Alt', '↓'],
    label: 'Conversation below',
    matches: (event) => isAlt(event) && event.key === 'ArrowDown',
    act: () => step(1),
  },
  {
    keys: ['/'],
    label: 'Write a message',
    matches: (event) => isPlain(event) && event.key === '/',
    act: () => {
      openView('chat');
      focusSoon('.composer-text');
    },
  },
  {
    keys: ['Esc'],
    label: 'Stop the reply',
    matches: (event) => event.key === 'Escape',
    act: () => {
      if (!isReplying.value || helpOpen.value) return false;
      stop();
      return true;
    },
  },
  {
    keys: ['Alt', 'R'],
    label: 'Another reply',
    matches: (event) => isAlt(event) && atKey(event, 'KeyR'),
    act: regenerateLast,
  },
  {
    keys: ['Alt', 'L'],
    label: 'List of conversations',
    matches: (event) => isAlt(event) && atKey(event, 'KeyL'),
    act: toggleList,
  },
  {
    keys: ['Alt', 'S'],
    label: 'Settings',
    matches: (event) => isAlt(event) && atKey(event, 'KeyS'),
    act: toggleSettings,
  },
  {
    keys: ['Alt', 'M'],
    label: 'Chat or machine',
    matches: (event) => isAlt(event) && atKey(event, 'KeyM'),
    act: () => openView(view.value === 'chat' ? 'machine' : 'chat'),
  },
  {
    keys: ['?'],
    label: 'These keys',
    matches: (event) => isPlain(event) && event.key === '?',
    act: () => {
      helpOpen.value = !helpOpen.value;
    },
  },
];

/** Acts on the keys from now on. */
export function listenForShortcuts(): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const shortcut = kShortcuts.find(({ matches }) => matches(event));
    if (shortcut && shortcut.act() !== false) event.preventDefault();
  });
}
