import { expect, test } from 'vitest';
import { newConversation, pathOf, withTurn, type Conversation } from '../../src/chat/conversation';
import {
  ConversationRecords,
  kOldRecord,
  kRecordPrefix,
  type RecordStorage,
} from '../../src/chat/conversation_records';

/** As a browser's, with a count of what was written. */
class FakeStorage implements RecordStorage {
  items = new Map<string, string>();
  writes: string[] = [];
  mostItems = Infinity;

  get length(): number {
    return this.items.size;
  }
  key(index: number): string | null {
    return [...this.items.keys()][index] ?? null;
  }
  getItem(key: string): string | null {
    return this.items.get(key) ?? null;
  }
  setItem(key: string, value: string): void {
    if (!this.items.has(key) && this.items.size >= this.mostItems) throw new Error('QuotaExceededError');
    this.items.set(key, value);
    this.writes.push(key);
  }
  removeItem(key: string): void {
    this.items.delete(key);
  }
}

let clock = 1000;
const now = () => (clock += 1);
const say = (conversation: Conversation, text: string) =>
  withTurn(conversation, conversation.leaf, { role: 'user', text }, now());
const texts = (conversation: Conversation | undefined) =>
  conversation ? pathOf(conversation).map(({ message }) => message.text) : [];

/** A tab as the store drives it: what it shows, written through, and the other tabs' events. */
class Tab {
  shown = new Map<string, Conversation>();
  records: ConversationRecords;
  constructor(private storage: FakeStorage) {
    this.records = new ConversationRecords(storage, now);
    for (const one of this.records.readAll()) this.shown.set(one.id, one);
  }
  change(conversation: Conversation): void {
    this.shown.set(conversation.id, conversation);
  }
  flush(): void {
    for (const one of [...this.shown.values()]) {
      const stored = this.records.write(one);
      if (stored) this.shown.set(one.id, stored);
      else this.shown.delete(one.id);
    }
  }
  remove(id: string): void {
    this.records.remove(id);
    this.shown.delete(id);
  }
  /** The event of another tab's write or deletion, with the text that it had then. */
  hear(id: string, text: string | null = this.storage.getItem(kRecordPrefix + id)): void {
    const next = this.records.takeOver(id, text, this.shown.get(id));
    if (next) this.shown.set(id, next);
    else this.shown.delete(id);
  }
}

test('two tabs do not erase what the other one wrote', () => {
  const storage = new FakeStorage();
  const a = new Tab(storage);
  const b = new Tab(storage);
  a.change(say(newConversation(now()), 'from a'));
  b.change(say(newConversation(now()), 'from b'));
  a.flush();
  b.flush();
  a.flush();
  const fresh = new Tab(storage);
  expect([...fresh.shown.values()].map(({ title }) => title).sort()).toEqual(['from a', 'from b']);
});

test('only what changed is written', () => {
  const storage = new FakeStorage();
  const tab = new Tab(storage);
  const first = say(newConversation(now()), 'one');
  const second = say(newConversation(now()), 'two');
  tab.change(first);
  tab.change(second);
  tab.flush();
  storage.writes = [];
  tab.flush();
  expect(storage.writes).toEqual([]);
  tab.change(say(second, 'more'));
  tab.flush();
  expect(storage.writes).toEqual([kRecordPrefix + second.id]);
});

test('the same conversation continued in two tabs at once keeps both', () => {
  const storage = new FakeStorage();
  const a = new Tab(storage);
  const start = say(newConversation(now()), 'start');
  a.change(start);
  a.flush();
  const b = new Tab(storage);
  a.change(say(start, 'a goes on'));
  b.change(say(b.shown.get(start.id) as Conversation, 'b goes on'));
  a.flush();
  b.flush(); // No event has reached b yet.
  a.hear(start.id);
  for (const tab of [a, b, new Tab(storage)]) {
    const said = tab.shown.get(start.id)?.turns.map(({ message }) => message.text);
    expect(said?.sort()).toEqual(['a goes on', 'b goes on', 'start']);
  }
});

test('what another tab writes is shown, also while this one has something unsaved', () => {
  const storage = new FakeStorage();
  const a = new Tab(storage);
  const start = say(newConversation(now()), 'start');
  a.change(start);
  a.flush();
  const b = new Tab(storage);
  b.change({ ...(b.shown.get(start.id) as Conversation), title: 'Renamed', changed: now() });
  a.change(say(start, 'more'));
  a.flush();
  b.hear(start.id);
  expect(texts(b.shown.get(start.id))).toEqual(['start', 'more']);
  b.flush();
  a.hear(start.id);
  expect(texts(a.shown.get(start.id))).toEqual(['start', 'more']);
});

test('a deletion is not undone by a tab that has not heard of it', () => {
  const storage = new FakeStorage();
  const a = new Tab(storage);
  const start = say(newConversation(now()), 'start');
  a.change(start);
  a.flush();
  const b = new Tab(storage);
  a.remove(start.id);
  // b writes before the event comes: it finds the record gone.
  b.change(say(b.shown.get(start.id) as Conversation, 'more'));
  b.flush();
  expect(storage.length).toBe(0);
  expect(b.shown.size).toBe(0);
});

test('a deletion that crosses a write wins, whichever the browser carried out first', () => {
  const storage = new FakeStorage();
  const a = new Tab(storage);
  const start = say(newConversation(now()), 'start');
  a.change(start);
  a.flush();
  const b = new Tab(storage);
  // b's storage did not know of the deletion yet, so its write came after it.
  a.remove(start.id);
  storage.items.set(kRecordPrefix + start.id, JSON.stringify(say(start, 'late')));
  b.hear(start.id, null);
  expect(storage.length).toBe(0);
  a.hear(start.id, JSON.stringify(say(start, 'late')));
  expect(a.shown.size + b.shown.size).toBe(0);
  b.change(start);
  b.flush();
  expect(storage.length).toBe(0);
});

test('the single record of older versions is taken over once', () => {
  const storage = new FakeStorage();
  const messages = [
    { role: 'user', text: 'hello' },
    { role: 'assistant', text: 'hi', reasoning: '', calls: [], ending: 'stop', failure: null, figures: null },
  ];
  const old = { id: 'old', title: 'Old', changed: 5, messages };
  storage.items.set(kOldRecord, JSON.stringify([old, { id: 'empty', title: 'x', changed: 1, messages: [] }]));
  const tab = new Tab(storage);
  expect([...tab.shown.keys()]).toEqual(['old']);
  expect(texts(tab.shown.get('old'))).toEqual(['hello', 'hi']);
  expect([...storage.items.keys()]).toEqual([`${kRecordPrefix}old`]);
  tab.remove('old');
  expect(new Tab(storage).shown.size).toBe(0);
});

test('what does not fit or cannot be read is not lost', () => {
  const full = new FakeStorage();
  const old = [{ id: 'o', title: 'Old', changed: 5, messages: [{ role: 'user', text: 'hello' }] }];
  full.items.set(kOldRecord, JSON.stringify(old));
  full.mostItems = 1;
  expect(new Tab(full).shown.size).toBe(0);
  expect(full.getItem(kOldRecord)).not.toBeNull();

  const damaged = new FakeStorage();
  damaged.items.set(`${kRecordPrefix}x`, '{"id": "x", "turns": [{]');
  damaged.items.set(kOldRecord, 'no JSON');
  expect(new Tab(damaged).shown.size).toBe(0);
  expect(damaged.length).toBe(2);
});
