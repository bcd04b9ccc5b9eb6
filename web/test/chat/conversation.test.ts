import { expect, test } from 'vitest';
import {
  cutBefore,
  kUntitled,
  newConversation,
  titleFrom,
  withReply,
  withToolResult,
  withUserMessage,
} from '../../src/chat/conversation';
import { kEmptyReply } from '../../src/chat/reply_builder';

test('the title is the first words', () => {
  expect(titleFrom('  A fox\n and a   lantern ')).toBe('A fox and a lantern');
  expect(titleFrom(' ')).toBe(kUntitled);
  const long = titleFrom('word '.repeat(40));
  expect(long.length).toBeLessThanOrEqual(49);
  expect(long.endsWith('word…')).toBe(true);
  expect(titleFrom('x'.repeat(200))).toBe(`${'x'.repeat(48)}…`);
});

test('a title that was given stays', () => {
  const named = { ...newConversation(1), title: 'Mine' };
  expect(withUserMessage(named, 'hello', 2).title).toBe('Mine');
});

test('operations leave the conversation before them as it was', () => {
  const empty = newConversation(1);
  const asked = withUserMessage(empty, 'hello', 2);
  const answered = withReply(asked, 1, { ...kEmptyReply, text: 'hi' }, 3);
  expect([empty, asked, answered].map(({ messages }) => messages.length)).toEqual([0, 1, 2]);
  expect(cutBefore(answered, 1).messages).toEqual(asked.messages);
  expect(answered.changed).toBe(3);
});

test('a tool result goes to its call alone', () => {
  const calls = ['a', 'b'].map((id) => ({ id, name: 'f', arguments: '{}', result: null }));
  expect(withToolResult({ ...kEmptyReply, calls }, 'b', '4').calls.map(({ result }) => result)).toEqual([
    null,
    '4',
  ]);
});
