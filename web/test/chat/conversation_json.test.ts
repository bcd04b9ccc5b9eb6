import { expect, test } from 'vitest';
import { newConversation, pathOf, withTurn } from '../../src/chat/conversation';
import { Malformed, readConversation } from '../../src/chat/conversation_json';
import { kEmptyReply } from '../../src/chat/reply_builder';

const reply = { ...kEmptyReply, text: 'hi', ending: 'stop' as const };

test('what was exported comes back as it was', () => {
  const asked = withTurn(newConversation(1), null, { role: 'user', text: 'hello' }, 2);
  const usage = {
    prompt_tokens: 5,
    completion_tokens: 2,
    prompt_tokens_details: { cached_tokens: 1 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
  const full = {
    ...withTurn(asked, asked.leaf, { ...reply, figures: { ...reply.figures, whole: 8, usage } }, 3),
    system: 'be brief',
  };
  const text = JSON.stringify({ model: 'stories', ...full });
  expect(readConversation(JSON.parse(text), 9)).toEqual(full);
});

test('the list of messages that older versions exported becomes one path', () => {
  const old = { id: 'a', title: 'T', changed: 4, messages: [{ role: 'user', text: 'hello' }, reply] };
  const read = readConversation(old, 9);
  expect(pathOf(read).map(({ message }) => message.text)).toEqual(['hello', 'hi']);
  expect(read).toMatchObject({ id: 'a', title: 'T', changed: 4, system: null });
});

test('fields that it does not know are left out, also dangerous ones', () => {
  const text = `{"id": "a", "title": "<b>T</b>", "changed": 1e999, "onload": "x", "__proto__": {"polluted": 1},
    "turns": [{"id": "1", "parent": null, "at": -5, "message": {"role": "user", "text": "x", "html": "<img>"}}]}`;
  const read = readConversation(JSON.parse(text), 9);
  expect(Object.keys(read).sort()).toEqual(['changed', 'id', 'leaf', 'system', 'title', 'turns']);
  expect(read.turns[0]).toEqual({ id: '1', parent: null, at: 9, message: { role: 'user', text: 'x' } });
  expect(read.changed).toBe(9);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

const user = { role: 'user', text: 'x' };
const turn = { id: '1', parent: null, at: 1, message: user };
const kMalformed: [string, unknown][] = [
  ['null', null],
  ['a list', []],
  ['text', 'hello'],
  ['no messages', { id: 'a' }],
  ['messages that are no list', { messages: {} }],
  ['a message that is no object', { messages: ['x'] }],
  ['an unknown role', { messages: [{ role: 'system', text: 'x' }] }],
  ['text that is none', { messages: [{ role: 'user', text: { toString: 'x' } }] }],
  ['a reply without text', { messages: [{ role: 'assistant' }] }],
  ['an unknown ending', { messages: [{ role: 'assistant', text: '', ending: 'won' }] }],
  ['calls that are no list', { messages: [{ role: 'assistant', text: '', calls: 3 }] }],
  [
    'a call without arguments',
    { messages: [{ role: 'assistant', text: '', calls: [{ id: 'a', name: 'f' }] }] },
  ],
  ['a file without text', { messages: [{ ...user, files: [{ name: 'a' }] }] }],
  ['an id twice', { turns: [turn, turn] }],
  [
    'a parent that comes later',
    {
      turns: [
        { ...turn, parent: '2' },
        { ...turn, id: '2' },
      ],
    },
  ],
  ['a turn that follows itself', { turns: [{ ...turn, parent: '1' }] }],
];

test.each(kMalformed)('%s is refused with a sentence', (_name, value) => {
  expect(() => readConversation(value, 1)).toThrow(Malformed);
  expect(() => readConversation(value, 1)).toThrow(/\.$/);
});
