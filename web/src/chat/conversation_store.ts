/** The conversations and settings of this browser: signals, kept in localStorage and shared with other tabs. */
import { batch, computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import { kUntitled, closed, lastSaid, newConversation, type Conversation } from './conversation';
import { moveDraft } from './composer_draft';
import { ConversationRecords, kNoStorage, kRecordPrefix } from './conversation_records';
import { browserStorage } from '../storage/browser_storage';
import { keptValue } from '../storage/kept_value';
import { readSettings, type Settings } from './settings';

const kCurrentKey = 'baleen.current';
/** Tokens arrive faster than it makes sense to write. */
const kWriteDelayMs = 500;

const lasting = browserStorage('localStorage');
const ofThisTab = browserStorage('sessionStorage');
const records = new ConversationRecords(lasting ?? kNoStorage);

/** False when the browser refuses: private mode, or no room left. */
export const isSaved = signal(true);

const byRecency = (a: Conversation, b: Conversation) => lastSaid(b) - lastSaid(a);

function readRecords(): Conversation[] {
  try {
    return records.readAll().sort(byRecency);
  } catch {
    isSaved.value = false;
    return [];
  }
}

/** Newest first; never empty. An empty one is not stored. */
export const conversations = signal<Conversation[]>(readRecords());
if (conversations.value.length === 0) conversations.value = [newConversation(Date.now())];

/** What this tab showed, or any tab did last, as far as it is there: an id without a record may be another tab's. */
function firstShown(): string {
  const known = new Set(conversations.value.map(({ id }) => id));
  const remembered = [ofThisTab, lasting].map((storage) => storage?.getItem(kCurrentKey) ?? '');
  return remembered.find((id) => known.has(id)) ?? (conversations.value[0] as Conversation).id;
}

/** Each tab shows its own: always one that is in `conversations`, so that no other tab's change moves it elsewhere. */
const shownId = signal<string>(firstShown());
export const currentId: ReadonlySignal<string> = shownId;

export const current = computed<Conversation>(
  () =>
    conversations.value.find(({ id }) => id === shownId.value) ?? (conversations.value[0] as Conversation),
);

/** Shows a conversation of the list. */
export function show(id: string): void {
  if (conversations.value.some((other) => other.id === id)) shownId.value = id;
}

/** Set when another tab deleted what was shown here: its title, and the blank conversation in its place. */
const deletion = signal<{ title: string; place: string } | null>(null);
export const deletedElsewhere = computed<string | null>(() =>
  deletion.value?.place === current.value.id && current.value.turns.length === 0
    ? deletion.value.title
    : null,
);

export const settings = keptValue<Settings>('baleen.settings', readSettings);

export function changeSettings(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes };
}

const isBlank = ({ turns, title, system }: Conversation): boolean =>
  turns.length === 0 && title === kUntitled && system === null;

/** Replaces a conversation by its newer self; one that was deleted meanwhile stays deleted. */
export function keep(conversation: Conversation): void {
  conversations.value = conversations.value.map((other) =>
    other.id === conversation.id ? conversation : other,
  );
}

/** Puts a conversation before all others and shows it. */
export function open(conversation: Conversation): void {
  batch(() => {
    conversations.value = [conversation, ...conversations.value.filter(({ id }) => id !== conversation.id)];
    shownId.value = conversation.id;
  });
}

/** Opens a blank conversation: the one that is there, or a new one. */
export function startConversation(): void {
  open(conversations.value.find(isBlank) ?? newConversation(Date.now()));
}

function drop(id: string): void {
  conversations.value = conversations.value.filter((other) => other.id !== id);
}

/** The one below it in time is shown next. */
export function deleteConversation(id: string): void {
  records.remove(id);
  batch(() => {
    const wasShown = shownId.value === id;
    drop(id);
    const next = [...conversations.value].sort(byRecency)[0];
    if (!next) startConversation();
    else if (wasShown) shownId.value = next.id;
  });
}

/**
 * Another tab deleted it. Where it is shown, a blank one takes its place: what is being written is never sent to a
 * conversation that the user did not choose.
 */
function dropDeletedElsewhere(id: string): void {
  const gone = conversations.value.find((other) => other.id === id);
  if (!gone) return;
  batch(() => {
    const wasShown = shownId.value === id;
    drop(id);
    if (!wasShown) return;
    startConversation();
    moveDraft(id, shownId.value);
    deletion.value = { title: gone.title, place: shownId.value };
  });
}

/** Writes those that changed; each on its own, so that one that finds no room does not keep others from it. */
function flush(all: readonly Conversation[]): void {
  let wasSaved = true;
  for (const conversation of all) {
    if (isBlank(conversation)) continue;
    try {
      const stored = records.write(conversation);
      if (stored === null) dropDeletedElsewhere(conversation.id);
      else if (stored !== conversation) keep(stored);
    } catch {
      wasSaved = false;
    }
  }
  isSaved.value = wasSaved;
}

function followOtherTabs(): void {
  window.addEventListener('storage', ({ storageArea, key, newValue }) => {
    if (storageArea !== lasting || !key?.startsWith(kRecordPrefix)) return;
    const id = key.slice(kRecordPrefix.length);
    const mine = conversations.value.find((other) => other.id === id);
    const next = records.takeOver(id, newValue, mine);
    if (next === null) dropDeletedElsewhere(id);
    else if (mine) keep(next);
    else conversations.value = [next, ...conversations.value];
  });
}

function remember(id: string): void {
  try {
    ofThisTab?.setItem(kCurrentKey, id);
    lasting?.setItem(kCurrentKey, id);
  } catch {
    // The page opens the newest conversation.
  }
}

/**
 * Writes what changes from now on, and what is still to be written when the page goes; replies that `streamsHere` says
 * to stream in this tab end with it.
 */
export function persist(streamsHere: (id: string) => boolean): void {
  let timer: number | undefined;
  effect(() => {
    conversations.value;
    timer ??= window.setTimeout(() => {
      timer = undefined;
      flush(conversations.value);
    }, kWriteDelayMs);
  });
  effect(() => remember(current.value.id));
  window.addEventListener('pagehide', () =>
    flush(conversations.value.map((one) => (streamsHere(one.id) ? closed(one) : one))),
  );
  followOtherTabs();
}
