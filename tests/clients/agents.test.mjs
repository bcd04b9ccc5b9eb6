// OpenAI's Agents SDK against the real server: it goes on from a response by its id.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Agent, Runner, setTracingDisabled, tool } from '@openai/agents-core';
import { OpenAIProvider } from '@openai/agents-openai';
import OpenAI from 'openai';

import { startServer } from '../web/server_process.mjs';
import { MODEL, SERVER_OPTIONS, TEST, WEATHER } from './requests.mjs';


let server;
let runner;

before(async () => {
  setTracingDisabled(true);
  server = await startServer(0, SERVER_OPTIONS);
  const openAIClient = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'unused', maxRetries: 0 });
  runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses: true }) });
}, TEST);
after(() => server?.kill());

function agent(options) {
  return new Agent({
    name: 'Teller', model: MODEL, instructions: 'You tell stories.', modelSettings: { maxTokens: 40, temperature: 0 }, ...options,
  });
}

test('a run, and one that goes on from it', TEST, async () => {
  const first = await runner.run(agent(), 'A story about a fox.');
  assert.ok(first.finalOutput.length > 0);
  const second = await runner.run(agent(), 'Go on.', { previousResponseId: first.lastResponseId });
  assert.ok(second.finalOutput.length > 0);
  assert.notEqual(second.lastResponseId, first.lastResponseId);
  assert.ok(second.rawResponses[0].usage.inputTokens > first.rawResponses[0].usage.inputTokens);
});

test('a streamed run', TEST, async () => {
  // A reply that a limit cuts ends with response.incomplete, which this client does not take for an end.
  const whole = agent({ modelSettings: { maxTokens: 1000, temperature: 0 } });
  const stream = await runner.run(whole, 'A story about a fox.', { stream: true });
  let text = '';
  for await (const event of stream) {
    if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
  }
  await stream.completed;
  assert.equal(text, stream.finalOutput);
});

test('a tool', TEST, async () => {
  let calls = 0;
  const weather = tool({
    name: WEATHER.name, description: WEATHER.description, parameters: WEATHER.parameters, strict: true,
    execute: () => { calls += 1; return 'clear'; },
  });
  const result = await runner.run(agent({
    tools: [weather], toolUseBehavior: 'stop_on_first_tool',
    modelSettings: { maxTokens: 200, temperature: 0, toolChoice: 'required', parallelToolCalls: false },
  }), 'What is the weather in Paris?');
  assert.equal(calls, 1);
  assert.equal(result.finalOutput, 'clear');
});
