import { expect, test } from 'vitest';
import { composeRequest } from '../../src/chat/compose_request';
import type { Message, Reply } from '../../src/chat/conversation';
import { kEmptyReply } from '../../src/chat/reply_builder';
import { kDefaultSettings } from '../../src/chat/settings';

const said: Message = { role: 'user', text: 'hello' };
const reply = (part: Partial<Reply>): Reply => ({ ...kEmptyReply, ending: 'stop', ...part });
const call = (args: string, result: string | null) => ({ id: 'c1', name: 'f', arguments: args, result });

test('what is not set is not sent', () => {
  expect(composeRequest('stories', [said], kDefaultSettings)).toEqual({
    model: 'stories',
    messages: [{ role: 'user', content: 'hello' }],
    stream: true,
    stream_options: { include_usage: true, include_progress: true },
    thinking: { type: 'disabled' },
  });
});

test('every setting has its field', () => {
  const request = composeRequest('m', [said], {
    ...kDefaultSettings,
    system: ' be brief ',
    thinking: 'max',
    temperature: 0,
    topP: 0.5,
    topK: 40,
    minP: 0.1,
    maxTokens: 9,
    seed: 7,
    presencePenalty: 0.5,
    frequencyPenalty: -1,
    repetitionPenalty: 1.1,
    stop: 'END',
    schema: '{"type":"object"}',
    schemaOn: true,
    toolsOn: true,
    toolChoice: 'get_weather',
  });
  expect(request).toMatchObject({
    thinking: { type: 'enabled' },
    reasoning_effort: 'max',
    temperature: 0,
    top_p: 0.5,
    top_k: 40,
    min_p: 0.1,
    max_tokens: 9,
    seed: 7,
    presence_penalty: 0.5,
    frequency_penalty: -1,
    repetition_penalty: 1.1,
    stop: ['END'],
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'reply', schema: { type: 'object' }, strict: true },
    },
    tool_choice: { type: 'function', function: { name: 'get_weather' } },
  });
  expect(request.messages[0]).toEqual({ role: 'system', content: 'be brief' });
  expect(request.tools).toHaveLength(1);
});

test('tools that do not parse are not sent, and a tool that is gone is not forced', () => {
  expect(
    composeRequest('m', [said], { ...kDefaultSettings, toolsOn: true, tools: '[{' }).tools,
  ).toBeUndefined();
  const other = composeRequest('m', [said], { ...kDefaultSettings, toolsOn: true, toolChoice: 'gone' });
  expect(other.tool_choice).toBe('auto');
});

test('a tool call is followed by what the tool said', () => {
  const history = [
    said,
    reply({ reasoning: 'hm', ending: 'tool_calls', calls: [call('{"a":1}', '21 degrees')] }),
  ];
  expect(composeRequest('m', history, kDefaultSettings).messages.slice(1)).toEqual([
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'hm',
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: '21 degrees' },
  ]);
});

test('every call has a result, and half a call is left out', () => {
  const unanswered = composeRequest('m', [reply({ calls: [call('{}', null)] })], kDefaultSettings);
  expect(unanswered.messages[1]).toEqual({ role: 'tool', tool_call_id: 'c1', content: '(no result)' });
  const cut = reply({ text: 'so', calls: [call('{"a', null)] });
  const half = composeRequest('m', [cut, said], kDefaultSettings);
  expect(half.messages.slice(0, 1)).toEqual([{ role: 'assistant', content: 'so' }]);
  expect(composeRequest('m', [reply({ ending: 'failed' })], kDefaultSettings).messages).toEqual([]);
});

test('a reply that was cut is continued, under the prompt of its conversation', () => {
  const settings = { ...kDefaultSettings, system: 'general' };
  const cut = reply({ text: 'Once upon', ending: 'length' });
  expect(composeRequest('m', [said, cut], settings, 'be a fox').messages).toEqual([
    { role: 'system', content: 'be a fox' },
    { role: 'user', content: 'hello' },
    { role: 'assistant', content: 'Once upon', prefix: true },
  ]);
  expect(composeRequest('m', [said], settings).messages[0]).toEqual({ role: 'system', content: 'general' });
});

test('files stand before the text, in fences longer than any of theirs', () => {
  const files = [
    { name: 'a.md', text: '````js\nx\n````\n' },
    { name: 'b.txt', text: 'plain' },
  ];
  const [message] = composeRequest(
    'm',
    [{ role: 'user', text: 'compare', files }],
    kDefaultSettings,
  ).messages;
  expect(message?.content).toBe('a.md:\n`````\n````js\nx\n````\n`````\n\nb.txt:\n```\nplain\n```\n\ncompare');
});

test('tools of servers are offered beside those of the settings, and without them', () => {
  const offered = [{ type: 'function', function: { name: 'roll' } }];
  const both = composeRequest('m', [said], { ...kDefaultSettings, toolsOn: true }, null, offered);
  expect(both.tools).toHaveLength(2);
  const alone = composeRequest('m', [said], { ...kDefaultSettings, toolChoice: 'required' }, null, offered);
  expect(alone.tools).toEqual(offered);
  expect(alone.tool_choice).toBe('auto');
});
