import { expect, test } from 'vitest';
import type { ChatChunk, ChatDelta } from '../../src/api/chat_request';
import { ReplyBuilder } from '../../src/chat/reply_builder';

const delta = (of: ChatDelta): ChatChunk => ({ choices: [{ delta: of, finish_reason: null }] });
const end = (reason: string): ChatChunk => ({ choices: [{ delta: {}, finish_reason: reason }] });

test('reasoning, then content, with their times', () => {
  const builder = new ReplyBuilder();
  builder.add(delta({ content: '' }), 5);
  expect(builder.current.figures.firstToken).toBeNull();
  builder.add(delta({ reasoning_content: 'a fox' }), 20);
  builder.add(delta({ reasoning_content: ' then' }), 40);
  expect(builder.current.figures.reasoning).toBeNull();
  builder.add(delta({ content: 'Once' }), 70);
  builder.add(delta({ content: ' upon' }), 90);
  builder.add(end('stop'), 95);
  builder.add({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 4 } }, 96);
  const reply = builder.finish(100);
  expect(reply.reasoning).toBe('a fox then');
  expect(reply.text).toBe('Once upon');
  expect(reply.ending).toBe('stop');
  expect(reply.figures).toEqual({
    firstToken: 20,
    reasoning: 50,
    whole: 100,
    usage: { prompt_tokens: 7, completion_tokens: 4 },
  });
});

test('how much of the prompt is read', () => {
  const builder = new ReplyBuilder();
  expect(builder.current.figures.prefilled).toBeUndefined();
  builder.add({ choices: [], progress: { prefilled_tokens: 512, prompt_tokens: 2048 } }, 30);
  expect(builder.current.figures.prefilled).toBe(0.25);
  builder.add({ choices: [], progress: { prefilled_tokens: 0, prompt_tokens: 0 } }, 40);
  expect(builder.current.figures.prefilled).toBe(0.25);
});

test('parallel tool calls grow side by side', () => {
  const builder = new ReplyBuilder();
  builder.add(delta({ tool_calls: [{ index: 0, id: 'call_a', function: { name: 'f', arguments: '' } }] }), 1);
  builder.add(delta({ tool_calls: [{ index: 0, function: { arguments: '{"x"' } }] }), 2);
  builder.add(
    delta({ tool_calls: [{ index: 1, id: 'call_b', function: { name: 'g', arguments: '{' } }] }),
    3,
  );
  builder.add(delta({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }), 4);
  builder.add(delta({ tool_calls: [{ index: 1, function: { arguments: '}' } }] }), 5);
  builder.add(end('tool_calls'), 6);
  expect(builder.finish(7).calls).toEqual([
    { id: 'call_a', name: 'f', arguments: '{"x":1}', result: null },
    { id: 'call_b', name: 'g', arguments: '{}', result: null },
  ]);
  expect(builder.current.ending).toBe('tool_calls');
});

test('a reply that loops says so', () => {
  const builder = new ReplyBuilder();
  builder.add(delta({ content: 'la la la' }), 1);
  builder.add(end('repetition'), 2);
  expect(builder.finish(3).ending).toBe('repetition');
});

test('a reply that is stopped while it reasons keeps what came', () => {
  const builder = new ReplyBuilder();
  builder.add(delta({ reasoning_content: 'hm' }), 10);
  const reply = builder.finish(30, { ending: 'stopped', failure: null });
  expect(reply.reasoning).toBe('hm');
  expect(reply.ending).toBe('stopped');
  expect(reply.figures.reasoning).toBe(20);
});

test('what was shown before does not change', () => {
  const builder = new ReplyBuilder();
  builder.add(delta({ content: 'a' }), 1);
  const before = builder.current;
  builder.add(delta({ content: 'b' }), 2);
  expect(before.text).toBe('a');
});
