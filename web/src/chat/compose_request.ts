import type { ApiMessage, ChatRequest } from '../api/chat_request';
import type { Message, Reply, TextFile, UserMessage } from './conversation';
import { kNumberControls, readSchema, readStops, readTools, type Settings } from './settings';

/** Stands for what a tool said when the user went on without saying it: the protocol wants a result for every call. */
const kNoResult = '(no result)';

/**
 * The request for a reply to `messages`; when the last of them is a reply, for the rest of that one. `system` is the
 * prompt of this conversation, null when it has none of its own. `offered` are declarations of tools beside those of the
 * settings, of which each has a name of its own.
 */
export function composeRequest(
  model: string,
  messages: Message[],
  settings: Settings,
  system: string | null = null,
  offered: readonly unknown[] = [],
): ChatRequest {
  const prompt = (system ?? settings.system).trim();
  const history: ApiMessage[] = prompt ? [{ role: 'system', content: prompt }] : [];
  history.push(...messages.flatMap(apiMessages));
  const last = history.at(-1);
  if (last?.role === 'assistant') last.prefix = true;
  const request: ChatRequest = {
    model,
    messages: history,
    stream: true,
    stream_options: { include_usage: true, include_progress: true },
    thinking: { type: settings.thinking === 'off' ? 'disabled' : 'enabled' },
  };
  if (settings.thinking !== 'off') request.reasoning_effort = settings.thinking;
  for (const { key, field } of kNumberControls) {
    const value = settings[key];
    if (value !== null) request[field] = value;
  }
  const stop = readStops(settings.stop);
  if (stop.length > 0) request.stop = stop;
  const schema = settings.schemaOn ? readSchema(settings.schema) : null;
  if (schema && typeof schema !== 'string')
    request.response_format = { type: 'json_schema', json_schema: { name: 'reply', schema, strict: true } };
  const declared = settings.toolsOn ? readTools(settings.tools) : null;
  const own = declared === null || typeof declared === 'string' ? { tools: [], names: [] } : declared;
  const tools = [...own.tools, ...offered];
  if (tools.length > 0) {
    request.tools = tools;
    request.tool_choice = toolChoice(settings.toolsOn ? settings.toolChoice : 'auto', own.names);
  }
  return request;
}

function toolChoice(choice: string, names: string[]): ChatRequest['tool_choice'] {
  if (choice === 'none' || choice === 'required') return choice;
  return names.includes(choice) ? { type: 'function', function: { name: choice } } : 'auto';
}

function apiMessages(message: Message): ApiMessage[] {
  return message.role === 'user' ? [{ role: 'user', content: userText(message) }] : replyMessages(message);
}

function userText({ text, files = [] }: UserMessage): string {
  return [...files.map(fenced), text].filter((part) => part !== '').join('\n\n');
}

/** A file as a code block under its name; the fence is longer than any in the file. */
function fenced({ name, text }: TextFile): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
}

/** A reply as the history tells it, and what its tools said. A reply that was cut short keeps what is whole. */
function replyMessages(reply: Reply): ApiMessage[] {
  const calls = reply.calls.filter((call) => isJson(call.arguments));
  if (!reply.text && calls.length === 0) return [];
  const said: ApiMessage = { role: 'assistant', content: reply.text || null };
  if (reply.reasoning) said.reasoning_content = reply.reasoning;
  if (calls.length > 0) {
    said.tool_calls = calls.map(({ id, name, arguments: text }) => ({
      id,
      type: 'function',
      function: { name, arguments: text },
    }));
  }
  const results = calls.map((call): ApiMessage => ({
    role: 'tool',
    tool_call_id: call.id,
    content: call.result ?? kNoResult,
  }));
  return [said, ...results];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
