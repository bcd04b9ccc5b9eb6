// The official OpenAI client against the real server and the bundled model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';

import { startServer } from '../web/server_process.mjs';
import {
  ADD, checkArguments, checkHero, HERO, LONG_TEXT, LOOP, MODEL, PATIENCE_MS,
  SERVER_OPTIONS, TEST, tooLong, WEATHER,
} from './requests.mjs';

const TOOLS = [WEATHER, ADD].map((tool) => ({ type: 'function', function: tool }));
const FLAT_TOOLS = [WEATHER, ADD].map((tool) => ({ type: 'function', strict: true, ...tool }));

let server;
let client;

before(async () => {
  server = await startServer(0, SERVER_OPTIONS);
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'unused', maxRetries: 0, timeout: PATIENCE_MS });
}, TEST);
after(() => server?.kill());

function chat(body) {
  return client.chat.completions.create({ model: MODEL, temperature: 0, max_tokens: 40, ...body });
}

function user(content) {
  return [{ role: 'user', content }];
}

async function collect(stream) {
  const all = [];
  for await (const item of stream) all.push(item);
  return all;
}

/** The client's own error type, of this status. */
function rejectsWith(promise, status, check) {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(error.status, status);
    check(error);
    return true;
  });
}

test('models', TEST, async () => {
  const models = await collect(await client.models.list());
  assert.deepEqual(models.map((model) => model.id), [MODEL]);
  assert.equal((await client.models.retrieve(MODEL)).object, 'model');
});

test('chat', TEST, async () => {
  const reply = await chat({ messages: user('Hello!') });
  assert.match(reply.id, /^chatcmpl-/);
  assert.equal(reply.object, 'chat.completion');
  assert.equal(reply.model, MODEL);
  assert.equal(reply.choices.length, 1);
  const [choice] = reply.choices;
  assert.equal(choice.message.role, 'assistant');
  assert.ok(choice.message.content.length > 0);
  assert.ok(['stop', 'length'].includes(choice.finish_reason));
  const { usage } = reply;
  assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0 && usage.completion_tokens <= 40);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.equal(usage.completion_tokens_details.reasoning_tokens, 0);
});

test('a stream adds up to the reply', TEST, async () => {
  const messages = user('Tell me a story about a fox.');
  const whole = await chat({ messages });
  const chunks = await collect(await chat({ messages, stream: true, stream_options: { include_usage: true } }));
  const last = chunks.at(-1);
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, whole.usage.completion_tokens);
  const deltas = chunks.slice(0, -1).map((chunk) => chunk.choices[0]);
  assert.equal(deltas[0].delta.role, 'assistant');
  assert.equal(deltas.map(({ delta }) => delta.content ?? '').join(''), whole.choices[0].message.content);
  assert.deepEqual(deltas.map((choice) => choice.finish_reason).filter(Boolean), [whole.choices[0].finish_reason]);
});

test("the client's own accumulator", TEST, async () => {
  const stream = client.chat.completions.stream({
    model: MODEL, max_tokens: 30, temperature: 0, messages: user('Hello!'),
  });
  const reply = await stream.finalChatCompletion();
  assert.equal(reply.choices[0].message.content, (await chat({ messages: user('Hello!'), max_tokens: 30 })).choices[0].message.content);
});

test('seed, n, stop, logprobs, logit_bias', TEST, async () => {
  const sampled = { messages: user('Tell me a story.'), temperature: 1, seed: 7, n: 3, max_tokens: 20 };
  const [first, second] = [await chat(sampled), await chat(sampled)];
  const texts = (reply) => reply.choices.map((choice) => choice.message.content);
  assert.deepEqual(texts(first), texts(second));
  assert.equal(new Set(texts(first)).size, 3);

  const greedy = await chat({ messages: user('Tell me a story.'), logprobs: true, top_logprobs: 2 });
  const tokens = greedy.choices[0].logprobs.content;
  assert.equal(Buffer.from(tokens.flatMap((token) => token.bytes)).toString(), greedy.choices[0].message.content);
  for (const token of tokens) {
    assert.equal(token.top_logprobs.length, 2);
    assert.equal(token.top_logprobs[0].logprob, token.logprob);
  }
  const word = greedy.choices[0].message.content.trim().split(' ')[2];
  const stopped = await chat({ messages: user('Tell me a story.'), stop: word });
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  assert.ok(!stopped.choices[0].message.content.includes(word));
  assert.ok(greedy.choices[0].message.content.startsWith(stopped.choices[0].message.content));
});

test('thinking on and off', TEST, async () => {
  const messages = user('Tell me a story about a bear.');
  const thinking = await chat({ messages, reasoning_effort: 'high', max_tokens: 200 });
  assert.ok(thinking.choices[0].message.reasoning_content.length > 0);
  assert.ok(thinking.usage.completion_tokens_details.reasoning_tokens > 0);
  const chunks = await collect(await chat({ messages, reasoning_effort: 'high', max_tokens: 200, stream: true }));
  const reasoning = chunks.map((chunk) => chunk.choices[0].delta.reasoning_content ?? '').join('');
  assert.equal(reasoning, thinking.choices[0].message.reasoning_content);
  const silent = await chat({ messages, thinking: { type: 'disabled' } });
  assert.equal(silent.choices[0].message.reasoning_content, undefined);
});

test('a thinking budget holds', TEST, async () => {
  const messages = user('Tell me a story about a bear.');
  const request = { messages, reasoning_effort: 'high', max_tokens: 200, max_thinking_tokens: 5 };
  const reply = await chat(request);
  assert.equal(reply.usage.completion_tokens_details.reasoning_tokens, 6);  // with the token that ends it
  assert.ok(reply.choices[0].message.content.length > 0);
  const response = await client.responses.create({
    model: MODEL, input: messages, reasoning: { effort: 'high' }, max_output_tokens: 200, temperature: 0,
    max_thinking_tokens: 5,
  });
  assert.equal(response.usage.output_tokens_details.reasoning_tokens, 6);
  assert.ok(response.output_text.length > 0);
});

test('a reply that loops says so', TEST, async () => {
  const messages = user('Tell me a story about a bear.');
  const reply = await chat({ messages, max_tokens: 400, ...LOOP });
  assert.equal(reply.choices[0].finish_reason, 'repetition');
  const request = { model: MODEL, temperature: 0, messages, max_tokens: 400, ...LOOP };
  const runner = client.chat.completions.stream(request);
  assert.equal((await runner.finalChatCompletion()).choices[0].finish_reason, 'repetition');
  const response = await client.responses.create({
    model: MODEL, input: messages, max_output_tokens: 400, temperature: 0, ...LOOP,
  });
  assert.equal(response.status, 'incomplete');
  assert.equal(response.incomplete_details.reason, 'repetition');
});

test('a required tool call, its result, and the next turn', TEST, async () => {
  const messages = user('What is the weather in Paris?');
  const reply = await chat({ messages, tools: TOOLS, tool_choice: 'required', parallel_tool_calls: false, max_tokens: 100 });
  const [choice] = reply.choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  assert.equal(choice.message.tool_calls.length, 1);
  const [call] = choice.message.tool_calls;
  assert.match(call.id, /^call_/);
  const declared = TOOLS.find((tool) => tool.function.name === call.function.name);
  checkArguments(assert, declared.function, JSON.parse(call.function.arguments));

  const next = await chat({
    messages: [...messages, choice.message, { role: 'tool', tool_call_id: call.id, content: '{"sky": "clear"}' }],
    tools: TOOLS,
    tool_choice: 'none',
  });
  assert.equal(next.choices[0].message.tool_calls, undefined);
  assert.equal(typeof next.choices[0].message.content, 'string');
});

test('a named tool, streamed', TEST, async () => {
  const request = {
    messages: user('Add 2 and 40.'), tools: TOOLS, max_tokens: 100, parallel_tool_calls: false,
    tool_choice: { type: 'function', function: { name: 'add' } },
  };
  const whole = (await chat(request)).choices[0].message.tool_calls[0];
  const chunks = await collect(await chat({ ...request, stream: true }));
  const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
  assert.equal(deltas[0].function.name, 'add');
  assert.match(deltas[0].id, /^call_/);
  assert.ok(deltas.length > 2, 'arguments come in more than one delta');
  assert.ok(deltas.every((delta) => delta.index === 0));
  const streamed = deltas.map((delta) => delta.function.arguments).join('');
  assert.equal(streamed, whole.function.arguments);
  checkArguments(assert, ADD, JSON.parse(streamed));
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
});

test('tools that the model may call or not', TEST, async () => {
  const reply = await chat({ messages: user('What is the weather in Rome?'), tools: TOOLS, max_tokens: 100 });
  const { message, finish_reason } = reply.choices[0];
  assert.equal(finish_reason === 'tool_calls', message.tool_calls !== undefined);
  assert.ok(!(message.content ?? '').includes('DSML'));
});

test('structured output', TEST, async () => {
  const format = { type: 'json_schema', json_schema: { name: 'hero', strict: true, schema: HERO } };
  const messages = user('Who is the hero? Pip the mouse was very brave.');
  const reply = await chat({ messages, response_format: format, max_tokens: 200 });
  assert.equal(reply.choices[0].finish_reason, 'stop');
  checkHero(assert, reply.choices[0].message.content);
  const parsed = await client.chat.completions.parse({ model: MODEL, messages, response_format: format, max_tokens: 200, seed: 1 });
  assert.equal(parsed.choices[0].finish_reason, 'stop');
  checkHero(assert, parsed.choices[0].message.content);
  const thinking = await chat({ messages, response_format: format, max_tokens: 600, reasoning_effort: 'low' });
  if (thinking.choices[0].finish_reason === 'stop') checkHero(assert, thinking.choices[0].message.content);
});

test('completions', TEST, async () => {
  const reply = await client.completions.create({
    model: MODEL, prompt: ['Once upon a time', 'The bear'], max_tokens: 8, temperature: 0, logprobs: 1, n: 1,
  });
  assert.equal(reply.object, 'text_completion');
  assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1]);
  const { logprobs, text } = reply.choices[0];
  assert.equal(logprobs.tokens.join(''), text);
  assert.equal(logprobs.text_offset.length, logprobs.tokens.length);
  const echoed = await client.completions.create({
    model: MODEL, prompt: 'Once upon a time', max_tokens: 8, temperature: 0, echo: true,
  });
  assert.equal(echoed.choices[0].text, `Once upon a time${text}`);
});

test('responses', TEST, async () => {
  const request = { model: MODEL, instructions: 'You tell stories.', input: 'A story about a fox.', temperature: 0, max_output_tokens: 30 };
  const reply = await client.responses.create(request);
  assert.match(reply.id, /^resp_/);
  assert.equal(reply.instructions, 'You tell stories.');
  assert.ok(reply.output_text.length > 0);
  assert.equal(reply.status === 'incomplete', reply.incomplete_details?.reason === 'max_output_tokens');
  assert.equal(reply.usage.total_tokens, reply.usage.input_tokens + reply.usage.output_tokens);

  const events = await collect(await client.responses.create({ ...request, stream: true }));
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
  const types = [...new Set(events.map((event) => event.type))];
  assert.deepEqual(types, [
    'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
    'response.output_text.delta', 'response.output_text.done', 'response.content_part.done',
    'response.output_item.done', `response.${reply.status}`,
  ]);
  const deltas = events.filter((event) => event.type === 'response.output_text.delta');
  assert.equal(deltas.map((event) => event.delta).join(''), reply.output_text);
  const final = await client.responses.stream(request).finalResponse();
  assert.equal(final.output_text, reply.output_text);
});

test('responses: reasoning, a function call and its output', TEST, async () => {
  const input = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const request = {
    model: MODEL, tools: FLAT_TOOLS, temperature: 0, max_output_tokens: 400, parallel_tool_calls: false,
    tool_choice: { type: 'function', name: 'get_weather' },
  };
  const final = await client.responses.stream({ ...request, input }).finalResponse();
  const call = final.output.find((item) => item.type === 'function_call');
  assert.equal(call.name, 'get_weather');
  checkArguments(assert, WEATHER, JSON.parse(call.arguments));

  const thinking = await client.responses.create({ model: MODEL, input, reasoning: { effort: 'high' }, temperature: 0, max_output_tokens: 300 });
  assert.equal(thinking.output[0].type, 'reasoning');
  assert.ok(thinking.output[0].content[0].text.length > 0);
  assert.ok(thinking.usage.output_tokens_details.reasoning_tokens > 0);

  const next = await client.responses.create({
    ...request, tool_choice: 'none',
    input: [...input, ...final.output, { type: 'function_call_output', call_id: call.call_id, output: 'clear' }],
  });
  assert.ok(next.output.every((item) => item.type !== 'function_call'));
});

test('responses: kept, gone on from, fetched, deleted', TEST, async () => {
  const first = await client.responses.create({ model: MODEL, input: 'A story about a fox.', temperature: 0, max_output_tokens: 20 });
  const second = await client.responses.create({
    model: MODEL, input: 'Go on.', previous_response_id: first.id, temperature: 0, max_output_tokens: 20,
  });
  assert.ok(second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens);
  assert.equal((await client.responses.retrieve(first.id)).output_text, first.output_text);
  await client.responses.delete(first.id);
  await rejectsWith(client.responses.retrieve(first.id), 404, () => {});
});

test('likelihood of a prompt', TEST, async () => {
  const prompt = 'Once upon a time there was a fox.';
  const reply = await client.completions.create({ model: MODEL, prompt, max_tokens: 0, echo: true, logprobs: 1 });
  const { text, logprobs } = reply.choices[0];
  assert.equal(text, prompt);
  assert.equal(logprobs.tokens.join(''), prompt);
  assert.equal(logprobs.token_logprobs[0], null);
  assert.ok(logprobs.token_logprobs.slice(1).every((value) => value <= 0));
});

test('responses: structured output', TEST, async () => {
  const reply = await client.responses.create({
    model: MODEL, input: 'Who is the hero? Bo the bear.', max_output_tokens: 200, temperature: 0,
    text: { format: { type: 'json_schema', name: 'hero', strict: true, schema: HERO } },
  });
  assert.equal(reply.status, 'completed');
  checkHero(assert, reply.output_text);
});

test('errors', TEST, async () => {
  const too_long = tooLong(await client.models.retrieve(MODEL));
  await rejectsWith(chat({ model: 'gpt-0', messages: user('x') }), 404, (error) => {
    assert.equal(error.code, 'model_not_found');
    assert.equal(error.param, 'model');
  });
  await rejectsWith(chat({ messages: user('x'), temperature: 9 }), 400, (error) => {
    assert.equal(error.type, 'invalid_request_error');
    assert.equal(error.param, 'temperature');
    assert.match(error.message, /from 0 to 2, found 9/);
  });
  await rejectsWith(chat({ messages: [{ role: 'user', content: [{ type: 7 }] }] }), 400, (error) => {
    assert.equal(error.param, 'messages[0].content[0].type');
  });
  await rejectsWith(chat({ messages: user(too_long) }), 400, (error) => {
    assert.equal(error.code, 'context_length_exceeded');
    assert.equal(error.param, 'messages');
  });
  await rejectsWith(client.responses.create({ model: MODEL, input: 'x', previous_response_id: 'resp_1' }), 400, (error) => {
    assert.equal(error.param, 'previous_response_id');
    assert.equal(error.code, 'previous_response_not_found');
  });
  await rejectsWith(client.responses.retrieve('resp_1'), 404, (error) => {
    assert.match(error.message, /'resp_1' not found/);
  });
});

test('a stream can be left', TEST, async () => {
  const stream = await chat({ messages: user('Tell me a long story.'), max_tokens: 2000, stream: true });
  let num_chunks = 0;
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    if (++num_chunks === 5) break;  // the client aborts the request
  }
  assert.equal(num_chunks, 5);
  assert.ok((await chat({ messages: user('Hello!') })).choices[0].message.content.length > 0);
});

test('a second turn finds its prefix in the cache', TEST, async () => {
  const messages = user(LONG_TEXT);
  const first = await chat({ messages, max_tokens: 10 });
  const second = await chat({
    messages: [...messages, first.choices[0].message, { role: 'user', content: 'Go on.' }], max_tokens: 10,
  });
  const cached = second.usage.prompt_tokens_details.cached_tokens;
  assert.ok(cached >= 256, `${cached} tokens of ${second.usage.prompt_tokens} were cached`);
  assert.ok(cached < second.usage.prompt_tokens);
});
