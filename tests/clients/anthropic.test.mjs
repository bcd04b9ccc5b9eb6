// The official Anthropic client against the real server and the bundled model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import { startServer } from '../web/server_process.mjs';
import {
  ADD, checkArguments, checkHero, HERO, LONG_TEXT, LOOP, MODEL, PATIENCE_MS,
  SERVER_OPTIONS, TEST, tooLong, WEATHER,
} from './requests.mjs';

const TOOLS = [WEATHER, ADD].map(({ parameters, ...rest }) => ({ ...rest, input_schema: parameters }));

let server;
let client;

before(async () => {
  server = await startServer(0, SERVER_OPTIONS);
  client = new Anthropic({ baseURL: server.url, apiKey: 'unused', maxRetries: 0, timeout: PATIENCE_MS });
}, TEST);
after(() => server?.kill());

function params(body) {
  return { model: MODEL, max_tokens: 40, temperature: 0, ...body };
}

function user(content) {
  return [{ role: 'user', content }];
}

function textOf(message) {
  return message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');
}

/** The client's own error type, of this status. */
function rejectsWith(promise, status, type, pattern) {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof Anthropic.APIError, String(error));
    assert.equal(error.status, status);
    assert.equal(error.error.error.type, type);
    assert.match(error.message, pattern);
    return true;
  });
}

test('a message', TEST, async () => {
  const message = await client.messages.create(params({ system: 'You tell stories.', messages: user('Hello!') }));
  assert.match(message.id, /^msg_/);
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.equal(message.model, MODEL);
  assert.ok(textOf(message).length > 0);
  assert.ok(['end_turn', 'max_tokens'].includes(message.stop_reason));
  assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0);
  assert.equal(message.usage.cache_creation_input_tokens, 0);
  assert.ok(message.usage.output_tokens > 0);
});

test('a stream adds up to the message', TEST, async () => {
  const request = params({ messages: user('Tell me a story about a fox.') });
  const whole = await client.messages.create(request);
  const types = [];
  for await (const event of await client.messages.create({ ...request, stream: true })) types.push(event.type);
  assert.deepEqual([...new Set(types)], [
    'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop',
  ]);
  const final = await client.messages.stream(request).finalMessage();
  assert.equal(textOf(final), textOf(whole));
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  assert.ok(final.usage.cache_read_input_tokens >= 0);
});

test('stop sequences', TEST, async () => {
  const messages = user('Tell me a story.');
  const word = textOf(await client.messages.create(params({ messages }))).trim().split(' ')[2];
  const message = await client.messages.create(params({ messages, stop_sequences: [word] }));
  assert.equal(message.stop_reason, 'stop_sequence');
  assert.equal(message.stop_sequence, word);
  assert.ok(!textOf(message).includes(word));
});

test('an assistant message is continued', TEST, async () => {
  const messages = [...user('Tell me a story.'), { role: 'assistant', content: 'Once upon a time' }];
  const message = await client.messages.create(params({ messages }));
  assert.ok(textOf(message).length > 0);
});

test('thinking, and its blocks sent back', TEST, async () => {
  const messages = user('Tell me a story about a bear.');
  const request = params({ messages, max_tokens: 1100, thinking: { type: 'enabled', budget_tokens: 1024 } });
  const message = await client.messages.stream(request).finalMessage();
  const [thinking] = message.content;
  assert.equal(thinking.type, 'thinking');
  assert.ok(thinking.thinking.length > 0);
  assert.ok(thinking.signature.length > 0);
  const next = await client.messages.create(params({
    messages: [...messages, { role: 'assistant', content: message.content }, ...user('Another.')],
  }));
  assert.ok(next.content.every((block) => block.type === 'text'));
});

test('a thinking budget holds', TEST, async () => {
  const messages = user('Tell me a story about a bear.');
  const request = params({ messages, max_tokens: 200, thinking: { type: 'enabled', budget_tokens: 5 } });
  const streamed = await client.messages.stream(request).finalMessage();
  for (const message of [await client.messages.create(request), streamed]) {
    assert.equal(message.usage.output_tokens_details.thinking_tokens, 6);  // with the token that ends it
    assert.ok(textOf(message).length > 0);
  }
});

test('a reply that loops says so', TEST, async () => {
  const messages = user('Tell me a story about a bear.');
  const request = params({ messages, max_tokens: 400, temperature: 0, ...LOOP });
  assert.equal((await client.messages.create(request)).stop_reason, 'repetition');
  assert.equal((await client.messages.stream(request).finalMessage()).stop_reason, 'repetition');
});

test('a required tool call, its result, and the next turn', TEST, async () => {
  const messages = user('What is the weather in Paris?');
  const tool_choice = { type: 'any', disable_parallel_tool_use: true };
  const message = await client.messages.create(params({ messages, tools: TOOLS, tool_choice, max_tokens: 100 }));
  assert.equal(message.stop_reason, 'tool_use');
  const calls = message.content.filter((block) => block.type === 'tool_use');
  assert.equal(calls.length, 1);
  assert.match(calls[0].id, /^toolu_/);
  const declared = [WEATHER, ADD].find((tool) => tool.name === calls[0].name);
  checkArguments(assert, declared, calls[0].input);

  const next = await client.messages.create(params({
    tools: TOOLS,
    tool_choice: { type: 'none' },
    messages: [
      ...messages,
      { role: 'assistant', content: message.content },
      ...user([{ type: 'tool_result', tool_use_id: calls[0].id, content: 'no such city', is_error: true }]),
    ],
  }));
  assert.ok(next.content.every((block) => block.type === 'text'));
});

test('a named tool, streamed', TEST, async () => {
  const request = params({
    messages: user('Add 2 and 40.'), tools: TOOLS, max_tokens: 100,
    tool_choice: { type: 'tool', name: 'add', disable_parallel_tool_use: true },
  });
  const stream = client.messages.stream(request);
  const deltas = [];
  stream.on('inputJson', (delta) => deltas.push(delta));
  const message = await stream.finalMessage();
  const call = message.content.find((block) => block.type === 'tool_use');
  assert.equal(call.name, 'add');
  checkArguments(assert, ADD, call.input);
  assert.deepEqual(JSON.parse(deltas.join('')), call.input);
  assert.equal(message.stop_reason, 'tool_use');
});

test('structured output', TEST, async () => {
  const message = await client.messages.create(params({
    messages: user('Who is the hero? Pip the mouse was very brave.'), max_tokens: 200,
    output_config: { format: { type: 'json_schema', schema: HERO } },
  }));
  assert.equal(message.stop_reason, 'end_turn');
  checkHero(assert, textOf(message));
});

test('counting tokens', TEST, async () => {
  const messages = user('Tell me a story.');
  const counted = await client.messages.countTokens({ model: MODEL, messages });
  const { usage } = await client.messages.create(params({ messages, max_tokens: 1 }));
  assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

test('errors', TEST, async () => {
  const too_long = tooLong(await client.models.retrieve(MODEL));
  const messages = user('x');
  const create = (body) => client.messages.create(params(body));
  await rejectsWith(create({ model: 'claude-0', messages }), 404, 'not_found_error', /model/);
  await rejectsWith(create({ messages, temperature: 9 }), 400, 'invalid_request_error', /temperature: .* found 9/);
  await rejectsWith(create({ messages, max_tokens: 0 }), 400, 'invalid_request_error', /max_tokens/);
  const sentence = /prompt is too long: \d+ tokens > \d+ maximum/;
  await rejectsWith(create({ messages: user(too_long) }), 400, 'invalid_request_error', sentence);
});

test('a stream can be left', TEST, async () => {
  const stream = client.messages.stream(params({ messages: user('Tell me a long story.'), max_tokens: 2000 }));
  await assert.rejects(async () => {
    for await (const event of stream) {
      if (event.type === 'content_block_delta') stream.abort();
    }
  }, Anthropic.APIUserAbortError);
  assert.ok(textOf(await client.messages.create(params({ messages: user('Hello!') }))).length > 0);
});

test('a second turn finds its prefix in the cache', TEST, async () => {
  const messages = user(LONG_TEXT);
  const first = await client.messages.create(params({ messages, max_tokens: 10 }));
  const second = await client.messages.create(params({
    messages: [...messages, { role: 'assistant', content: first.content }, ...user('Go on.')], max_tokens: 10,
  }));
  const { cache_read_input_tokens: cached, input_tokens: fresh } = second.usage;
  assert.ok(cached >= 256, `${cached} tokens were cached, ${fresh} were not`);
  assert.ok(fresh > 0);
});
