// The AI SDK through its OpenAI provider (responses by default) and its Anthropic provider, against the real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

import { startServer } from '../web/server_process.mjs';
import { checkHero, HERO, LOOP, MODEL, SERVER_OPTIONS, TEST, WEATHER } from './requests.mjs';

const PROVIDERS = ['responses', 'chat', 'messages'];

let server;
let models;

before(async () => {
  server = await startServer(0, [...SERVER_OPTIONS, '--any-model']);
  const openai = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'unused' });
  const anthropic = createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'unused' });
  // The provider sends reasoning options only for names of models that it knows to reason.
  models = {
    responses: openai(MODEL), chat: openai.chat(MODEL), messages: anthropic(MODEL), reasoning: openai('gpt-5'),
  };
}, TEST);
after(() => server?.kill());

function call(provider, options) {
  return { model: models[provider], maxRetries: 0, temperature: 0, maxOutputTokens: 40, ...options };
}

for (const provider of PROVIDERS) {
  test(`${provider}: a reply, and the same streamed`, TEST, async () => {
    const request = call(provider, { prompt: 'Tell me a story about a fox.' });
    const whole = await generateText(request);
    assert.ok(whole.text.length > 0);
    assert.ok(whole.usage.outputTokens > 0);
    let text = '';
    for await (const delta of streamText({ ...request, onError: ({ error }) => assert.fail(error) }).textStream) text += delta;
    assert.equal(text, whole.text);
  });

  test(`${provider}: a tool is called, its result goes back`, TEST, async () => {
    const inputs = [];
    const tools = {
      get_weather: tool({
        description: WEATHER.description,
        inputSchema: jsonSchema(WEATHER.parameters),
        execute: (input) => { inputs.push(input); return { sky: 'clear' }; },
      }),
    };
    // The first step must call, the second one goes on from what the first said: by reference, in responses.
    const reply = await generateText(call(provider, {
      prompt: 'What is the weather in Paris?', tools, maxOutputTokens: 100, stopWhen: stepCountIs(2),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'get_weather' } : 'none' }),
    }));
    assert.equal(inputs.length, 1);
    assert.equal(typeof inputs[0].city, 'string');
    assert.equal(reply.steps.length, 2);
  });

  test(`${provider}: structured output`, TEST, async () => {
    const { object } = await generateObject(call(provider, {
      prompt: 'Who is the hero? Pip the mouse.', schema: jsonSchema(HERO), maxOutputTokens: 200,
    }));
    // With the Anthropic provider the object is a tool's input, whose keys may come in any order.
    const inOrder = Object.fromEntries(Object.keys(HERO.properties).map((key) => [key, object[key]]));
    checkHero(assert, JSON.stringify(provider === 'messages' ? inOrder : object));
  });
}

test('responses: a second turn refers to the first', TEST, async () => {
  const messages = [{ role: 'user', content: 'Tell me a story about a bear.' }];
  const first = await generateText(call('responses', { messages }));
  const second = await generateText(call('responses', {
    messages: [...messages, ...first.response.messages, { role: 'user', content: 'Go on.' }],
  }));
  const body = second.request.body;
  const sent = (typeof body === 'string' ? JSON.parse(body) : body).input;
  assert.ok(sent.some((item) => item.type === 'item_reference'), JSON.stringify(sent));
  assert.ok(second.text.length > 0);
});

test('responses: reasoning summaries, kept or carried', TEST, async () => {
  for (const store of [true, false]) {
    const providerOptions = {
      openai: { store, reasoningEffort: 'high', reasoningSummary: 'auto', include: ['reasoning.encrypted_content'] },
    };
    const messages = [{ role: 'user', content: 'Tell me a story about a bear.' }];
    const first = await generateText(call('reasoning', { messages, maxOutputTokens: 300, providerOptions }));
    assert.ok(first.reasoningText?.length > 0);
    const second = await generateText(call('reasoning', {
      messages: [...messages, ...first.response.messages, { role: 'user', content: 'Go on.' }], providerOptions,
    }));
    assert.ok(second.usage.inputTokens > first.usage.inputTokens);
  }
});

test('messages: thinking', TEST, async () => {
  const reply = await generateText(call('messages', {
    prompt: 'Tell me a story about a bear.', maxOutputTokens: 300, temperature: undefined,
    providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
  }));
  assert.ok(reply.reasoningText?.length > 0);
});

/** The server's own fields, which the SDK has no names for. */
async function fetchWithLoop(url, options) {
  return fetch(url, { ...options, body: JSON.stringify({ ...JSON.parse(options.body), ...LOOP }) });
}

test('a reply that loops is read, whatever its reason is called', TEST, async () => {
  const settings = { baseURL: `${server.url}/v1`, apiKey: 'unused', fetch: fetchWithLoop };
  const openai = createOpenAI(settings);
  for (const model of [openai(MODEL), openai.chat(MODEL), createAnthropic(settings)(MODEL)]) {
    const request = { model, maxRetries: 0, temperature: 0, maxOutputTokens: 400, prompt: 'Tell a story.' };
    const whole = await generateText(request);
    assert.ok(whole.text.length > 0);
    assert.notEqual(whole.finishReason, 'stop');
    const stream = streamText({ ...request, onError: ({ error }) => assert.fail(error) });
    assert.equal(await stream.text, whole.text);
  }
});
