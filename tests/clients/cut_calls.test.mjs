// A call that a limit cuts is made by no client: each runs its tools by itself, streamed or not.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { Agent, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents-core';
import { OpenAIProvider } from '@openai/agents-openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';

import { startServer } from '../web/server_process.mjs';
import { MODEL, SERVER_OPTIONS } from './requests.mjs';

const TEST = {};
const ARGUMENTS = { table: 'visitors', where: 'id = 12 and\n\nname < "b"', limit: 25 };
const PARAMETERS = {
  type: 'object',
  properties: {
    table: { type: 'string', enum: [ARGUMENTS.table] },
    where: { type: 'string', enum: [ARGUMENTS.where] },
    limit: { type: 'integer', enum: [ARGUMENTS.limit] },
  },
  required: ['table', 'where', 'limit'],
  additionalProperties: false,
};
const NAME = 'delete_rows';
const DESCRIPTION = 'Deletes rows';
/** Tokens of the call: a limit above it cuts nothing. */
let callTokens;

let server;
let openai;

before(async () => {
  setTracingDisabled(true);
  server = await startServer(0, [...SERVER_OPTIONS, '--any-model']);
  openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'unused', maxRetries: 0 });
  const whole = await openai.chat.completions.create(chatRequest(400));
  assert.deepEqual(JSON.parse(whole.choices[0].message.tool_calls[0].function.arguments), ARGUMENTS);
  callTokens = whole.usage.completion_tokens;
}, { timeout: 90_000 });
after(() => server?.kill());

function chatRequest(maxTokens) {
  return {
    model: MODEL, messages: [{ role: 'user', content: 'Go.' }], temperature: 0, max_tokens: maxTokens,
    tools: [{ type: 'function', function: { name: NAME, description: DESCRIPTION, parameters: PARAMETERS } }],
    tool_choice: 'required', parallel_tool_calls: false,
  };
}

/** Runs `use(limit, make)` at limits within the call, and at its end; `make` takes what a tool was given. */
async function checkLimits(use) {
  const limits = [0.3, 0.5, 0.7, 0.8, 0.9].map((share) => Math.floor(share * callTokens));
  for (const limit of [...limits, callTokens - 1, callTokens]) {
    const made = [];
    // Some clients say by an error that the reply was cut.
    await use(limit, (given) => { made.push(given); return 'done'; }).catch((error) => {
      assert.ok(limit < callTokens, String(error));
    });
    for (const given of made) assert.deepEqual(given, ARGUMENTS, `of ${limit} tokens`);
    if (limit === callTokens) assert.ok(made.length > 0, 'the whole call was not made');
  }
}

for (const stream of [false, true]) {
  test(`the OpenAI client's runTools${stream ? ', streamed' : ''}`, TEST, async () => {
    await checkLimits(async (limit, make) => {
      const request = chatRequest(limit);
      const runner = openai.chat.completions.runTools({
        ...request, stream,
        tools: [{
          type: 'function',
          function: {
            name: NAME, description: DESCRIPTION, parameters: PARAMETERS, parse: JSON.parse, function: make,
          },
        }],
      }, { maxChatCompletions: 1 });
      await runner.done();
    });
  });

  for (const provider of ['responses', 'chat', 'messages']) {
    test(`the AI SDK, ${provider}${stream ? ', streamed' : ''}`, TEST, async () => {
      const provide = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'unused' });
      const models = {
        responses: provide(MODEL), chat: provide.chat(MODEL),
        messages: createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'unused' })(MODEL),
      };
      await checkLimits(async (limit, make) => {
        const request = {
          model: models[provider], prompt: 'Go.', maxRetries: 0, temperature: 0, maxOutputTokens: limit,
          toolChoice: 'required', stopWhen: stepCountIs(1),
          tools: {
            [NAME]: tool({ description: DESCRIPTION, inputSchema: jsonSchema(PARAMETERS), execute: make }),
          },
        };
        if (!stream) return generateText(request);
        const result = streamText({ ...request, onError: () => {} });
        await result.consumeStream();
        return result;
      });
    });
  }

  for (const useResponses of [true, false]) {
    const api = useResponses ? 'responses' : 'chat';
    test(`the Agents SDK, ${api}${stream ? ', streamed' : ''}`, TEST, async () => {
      const modelProvider = new OpenAIProvider({ openAIClient: openai, useResponses });
      const runner = new Runner({ modelProvider });
      await checkLimits(async (limit, make) => {
        const agent = new Agent({
          name: 'A', model: MODEL, toolUseBehavior: 'stop_on_first_tool',
          tools: [agentTool({
            name: NAME, description: DESCRIPTION, parameters: PARAMETERS, strict: true, execute: make,
          })],
          modelSettings: {
            maxTokens: limit, temperature: 0, toolChoice: 'required', parallelToolCalls: false,
          },
        });
        const run = await runner.run(agent, 'Go.', { stream, maxTurns: 1 });
        if (stream) await run.completed;
      });
    });
  }

  test(`the Anthropic client's tool runner${stream ? ', streamed' : ''}`, TEST, async () => {
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'unused', maxRetries: 0 });
    await checkLimits(async (limit, make) => {
      const runner = anthropic.beta.messages.toolRunner({
        model: MODEL, max_tokens: limit, temperature: 0, max_iterations: 1, stream,
        messages: [{ role: 'user', content: 'Go.' }],
        tool_choice: { type: 'any', disable_parallel_tool_use: true },
        tools: [{
          type: 'custom', name: NAME, description: DESCRIPTION, input_schema: PARAMETERS,
          parse: (content) => content, run: make,
        }],
      });
      for await (const message of runner) if (stream) await message.finalMessage();
      await runner.generateToolResponse?.();
    });
  });
}
