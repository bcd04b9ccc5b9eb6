import { expect, test } from 'vitest';
import {
  childrenOf,
  closed,
  forked,
  kUntitled,
  merged,
  newConversation,
  pathOf,
  showing,
  titleFrom,
  withMessage,
  withoutTurn,
  withCall,
  withTurn,
  type Conversation,
  type Message,
} from '../../src/chat/conversation';
import { kEmptyReply } from '../../src/chat/reply_builder';

const said = (text: string): Message => ({ role: 'user', text });
const replied = (text: string): Message => ({ ...kEmptyReply, text, ending: 'stop' });
const texts = (conversation: Conversation) => pathOf(conversation).map(({ message }) => message.text);

/** "hello", with two replies; the second was asked "and then?". */
function branched(): Conversation {
  const asked = withTurn(newConversation(1), null, said('hello'), 2);
  const first = withTurn(asked, asked.leaf, replied('first'), 3);
  const second = withTurn(first, asked.leaf, replied('second'), 4);
  return withTurn(second, second.leaf, said('and then?'), 5);
}

test('the title is the first words', () => {
  expect(titleFrom('  A fox\n and a   lantern ')).toBe('A fox and a lantern');
  expect(titleFrom(' ')).toBe(kUntitled);
  const long = titleFrom('word '.repeat(40));
  expect(long.length).toBeLessThanOrEqual(49);
  expect(long.endsWith('word…')).toBe(true);
  expect(titleFrom('x'.repeat(200))).toBe(`${'x'.repeat(48)}…`);
});

test('a title that was given stays; a message of files alone is named after the first', () => {
  const named = { ...newConversation(1), title: 'Mine' };
  expect(withTurn(named, null, said('hello'), 2).title).toBe('Mine');
  const files = [{ name: 'notes.txt', text: 'x' }];
  expect(withTurn(newConversation(1), null, { role: 'user', text: '', files }, 2).title).toBe('notes.txt');
});

test('operations leave the conversation before them as it was', () => {
  const empty = newConversation(1);
  const asked = withTurn(empty, null, said('hello'), 2);
  const answered = withTurn(asked, asked.leaf, replied('hi'), 3);
  withMessage(answered, answered.leaf as string, replied('ho'), 4);
  expect([empty, asked, answered].map(({ turns }) => turns.length)).toEqual([0, 1, 2]);
  expect(texts(answered)).toEqual(['hello', 'hi']);
  expect(answered.changed).toBe(3);
});

test('another reply keeps the one that was there, and each path its own end', () => {
  const all = branched();
  expect(texts(all)).toEqual(['hello', 'second', 'and then?']);
  const siblings = childrenOf(all).get(all.turns[0]?.id ?? '') ?? [];
  expect(siblings.map(({ message }) => message.text)).toEqual(['first', 'second']);
  const back = showing(all, siblings[0]?.id ?? '', 6);
  expect(texts(back)).toEqual(['hello', 'first']);
  expect(texts(showing(back, siblings[1]?.id ?? '', 7))).toEqual(['hello', 'second', 'and then?']);
});

test('a tool result goes to its call alone', () => {
  const calls = ['a', 'b'].map((id) => ({ id, name: 'f', arguments: '{}', result: null }));
  expect(withCall({ ...kEmptyReply, calls }, 'b', { result: '4' }).calls.map(({ result }) => result)).toEqual(
    [null, '4'],
  );
});

test('two tabs that went on from the same place keep the turns of both', () => {
  const common = branched();
  const mine = withTurn(common, common.leaf, replied('from here'), 10);
  const theirs = { ...withTurn(common, common.leaf, replied('from there'), 11), title: 'Renamed' };
  for (const both of [merged(mine, theirs), merged(theirs, mine)]) {
    expect(both.turns.map(({ message }) => message.text).sort()).toEqual(
      ['and then?', 'first', 'from here', 'from there', 'hello', 'second'].sort(),
    );
    expect(both.title).toBe('Renamed');
    expect(texts(both).at(-1)).toBe('from there');
    const known = new Set<string | null>([null]);
    for (const turn of both.turns) {
      expect(known.has(turn.parent)).toBe(true);
      known.add(turn.id);
    }
  }
});

test('a reply that is over is not replaced by an older state of it', () => {
  const asked = withTurn(newConversation(1), null, said('hello'), 2);
  const streaming = withTurn(asked, asked.leaf, { ...kEmptyReply, text: 'on' }, 3);
  const over = withMessage(streaming, streaming.leaf as string, replied('one two'), 4);
  const late = { ...streaming, changed: 99 };
  expect(texts(merged(over, late)).at(-1)).toBe('one two');
  expect(texts(merged(late, over)).at(-1)).toBe('one two');
});

test('a reply whose page went away is stopped', () => {
  const asked = withTurn(newConversation(1), null, said('hello'), 2);
  const streaming = withTurn(asked, asked.leaf, { ...kEmptyReply, text: 'on' }, 3);
  expect(closed(streaming).turns[1]?.message).toMatchObject({ text: 'on', ending: 'stopped' });
  expect(closed(asked)).toBe(asked);
});

test('a turn goes with all that followed it; what is left is shown', () => {
  const all = branched();
  const [asked, first, second] = all.turns.map(({ id }) => id) as [string, string, string];
  const withoutSecond = withoutTurn(all, second, 9);
  expect(texts(withoutSecond)).toEqual(['hello', 'first']);
  expect(withoutSecond.removed).toHaveLength(2);
  const withoutFirst = withoutTurn(all, first, 9);
  expect(texts(withoutFirst)).toEqual(['hello', 'second', 'and then?']);
  expect(withoutTurn(all, asked, 9)).toMatchObject({ turns: [], leaf: null });
});

test('what one tab deleted does not come back from another, nor what the other added below it', () => {
  const all = branched();
  const second = all.turns[2]?.id as string;
  const mine = withoutTurn(all, second, 9);
  const theirs = withTurn(all, all.leaf, replied('added'), 10);
  for (const both of [merged(mine, theirs), merged(theirs, mine)]) {
    expect(texts(both)).toEqual(['hello', 'first']);
    expect(both.removed).toHaveLength(3);
  }
  const later = withTurn(theirs, theirs.turns[1]?.id as string, said('beside'), 11);
  expect(texts(merged(mine, later))).toEqual(['hello', 'first', 'beside']);
});

test('a fork has an id of its own and what leads to its last turn', () => {
  const all = { ...branched(), removed: ['x'] };
  const whole = forked(all, null, 9);
  expect(whole.id).not.toBe(all.id);
  expect(whole.turns).toEqual(all.turns);
  expect(whole.title).toBe(`${all.title} (fork)`);
  expect(whole.removed).toBeUndefined();
  expect(texts(forked(all, all.turns[1]?.id as string, 9))).toEqual(['hello', 'first']);
  const streams = withTurn(all, all.leaf, kEmptyReply, 10);
  expect(forked(streams, null, 11).turns.at(-1)?.message).toMatchObject({ ending: 'stopped' });
});
