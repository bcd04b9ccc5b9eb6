/** What was said. Values are never changed in place: every operation returns a new conversation. */
import type { Figures } from './figures';

export interface UserMessage {
  role: 'user';
  text: string;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON, perhaps not all of it yet. */
  arguments: string;
  /** What the tool said, typed by the user; null until then. */
  result: string | null;
}

/** Why a reply is over; null while it streams. */
export type Ending = 'stop' | 'length' | 'tool_calls' | 'stopped' | 'failed';

export interface Reply {
  role: 'assistant';
  reasoning: string;
  text: string;
  calls: ToolCall[];
  ending: Ending | null;
  /** The sentence that explains 'failed'. */
  failure: string | null;
  figures: Figures;
}

export type Message = UserMessage | Reply;

export interface Conversation {
  id: string;
  title: string;
  /** Milliseconds since 1970, of the last change. */
  changed: number;
  messages: Message[];
}

const kTitleLength = 48;
export const kUntitled = 'New conversation';

/** Unique in this browser; `crypto.randomUUID` is absent from pages that came over plain HTTP. */
function newId(now: number): string {
  return `${now.toString(36)}-${Math.random().toString(36).slice(2)}`;
}

export function newConversation(now: number): Conversation {
  return { id: newId(now), title: kUntitled, changed: now, messages: [] };
}

/** The first words of what the user said. */
export function titleFrom(text: string): string {
  const line = [...text.trim().replace(/\s+/g, ' ')];
  if (line.length <= kTitleLength) return line.join('') || kUntitled;
  const lastSpace = line.lastIndexOf(' ', kTitleLength);
  const end = lastSpace > kTitleLength / 2 ? lastSpace : kTitleLength;
  return `${line.slice(0, end).join('')}…`;
}

export function withUserMessage(conversation: Conversation, text: string, now: number): Conversation {
  const title = conversation.title === kUntitled ? titleFrom(text) : conversation.title;
  return {
    ...conversation,
    title,
    changed: now,
    messages: [...conversation.messages, { role: 'user', text }],
  };
}

/** The messages before `index`, for writing that one anew. */
export function cutBefore(conversation: Conversation, index: number): Conversation {
  return { ...conversation, messages: conversation.messages.slice(0, index) };
}

export function withReply(
  conversation: Conversation,
  index: number,
  reply: Reply,
  now: number,
): Conversation {
  const messages = [...conversation.messages];
  messages[index] = reply;
  return { ...conversation, changed: now, messages };
}

export function withToolResult(reply: Reply, callId: string, result: string): Reply {
  return { ...reply, calls: reply.calls.map((call) => (call.id === callId ? { ...call, result } : call)) };
}
