/**
 * Conversations from outside: records of this browser, and files. Whatever the text is, the result has the declared
 * shape and nothing else; text stays text.
 */
import {
  kEndings,
  newId,
  titleFrom,
  type Conversation,
  type Ending,
  type Message,
  type Reply,
  type TextFile,
  type ToolCall,
  type Turn,
} from './conversation';
import { kNoFigures, type Figures } from './figures';

const kLongestTitle = 200;

type Fields = Record<string, unknown>;

/** What is wrong with a conversation, in a sentence that names the place. */
export class Malformed extends Error {}

/**
 * `value` as a conversation. A list `messages`, as older versions of this page wrote it, becomes a single path.
 * Throws Malformed.
 */
export function readConversation(value: unknown, now: number): Conversation {
  const fields = asFields(value, 'the conversation');
  const turns = Array.isArray(fields.turns)
    ? readTurns(fields.turns, now)
    : readMessages(asList(fields.messages, '"messages" or "turns"'), now);
  const leaf = turns.some(({ id }) => id === fields.leaf) ? (fields.leaf as string) : null;
  const isRemoved = (id: unknown) => typeof id === 'string' && !turns.some((turn) => turn.id === id);
  const removed: string[] = Array.isArray(fields.removed) ? fields.removed.filter(isRemoved) : [];
  return {
    id: typeof fields.id === 'string' && fields.id !== '' ? fields.id.slice(0, kLongestTitle) : newId(now),
    title: readTitle(fields.title, turns),
    changed: asTime(fields.changed, now),
    system: typeof fields.system === 'string' && fields.system.trim() !== '' ? fields.system : null,
    turns,
    leaf: leaf ?? turns.at(-1)?.id ?? null,
    ...(removed.length > 0 ? { removed } : {}),
  };
}

function readTitle(title: unknown, turns: Turn[]): string {
  if (typeof title === 'string' && title.trim() !== '') return title.trim().slice(0, kLongestTitle);
  const first = turns.find(({ message }) => message.role === 'user');
  return titleFrom(first?.message.text ?? '');
}

function readMessages(list: unknown[], now: number): Turn[] {
  const turns: Turn[] = [];
  for (const [index, item] of list.entries()) {
    const id = `m${index}`;
    const message = readMessage(item, `message ${index + 1}`);
    turns.push({ id, parent: turns.at(-1)?.id ?? null, at: now, message });
  }
  return turns;
}

function readTurns(list: unknown[], now: number): Turn[] {
  const turns: Turn[] = [];
  const known = new Set<string>();
  for (const [index, item] of list.entries()) {
    const where = `turn ${index + 1}`;
    const fields = asFields(item, where);
    const id = asText(fields.id, `the id of ${where}`);
    const parent = fields.parent === null ? null : asText(fields.parent, `the parent of ${where}`);
    if (known.has(id)) throw new Malformed(`The id of ${where} stands twice.`);
    if (parent !== null && !known.has(parent))
      throw new Malformed(`The parent of ${where} is not before it.`);
    known.add(id);
    turns.push({ id, parent, at: asTime(fields.at, now), message: readMessage(fields.message, where) });
  }
  return turns;
}

function readMessage(value: unknown, where: string): Message {
  const fields = asFields(value, where);
  if (fields.role === 'user') {
    const text = asText(fields.text, `the text of ${where}`);
    const files = fields.files === undefined ? [] : asList(fields.files, `the files of ${where}`);
    return files.length === 0
      ? { role: 'user', text }
      : { role: 'user', text, files: files.map((file) => readFile(file, where)) };
  }
  if (fields.role === 'assistant') return readReply(fields, where);
  throw new Malformed(`The role of ${where} is neither "user" nor "assistant".`);
}

function readFile(value: unknown, where: string): TextFile {
  const fields = asFields(value, `a file of ${where}`);
  return {
    name: asText(fields.name, `the name of a file of ${where}`).slice(0, kLongestTitle),
    text: asText(fields.text, `the text of a file of ${where}`),
  };
}

function readReply(fields: Fields, where: string): Reply {
  const calls = fields.calls === undefined ? [] : asList(fields.calls, `the calls of ${where}`);
  const ending = fields.ending ?? null;
  if (ending !== null && !kEndings.includes(ending as Ending))
    throw new Malformed(`The ending of ${where} is unknown.`);
  return {
    role: 'assistant',
    reasoning: asTextOr(fields.reasoning, ''),
    text: asText(fields.text, `the text of ${where}`),
    calls: calls.map((call) => readCall(call, where)),
    ending: ending as Ending | null,
    failure: typeof fields.failure === 'string' ? fields.failure : null,
    figures: readFigures(fields.figures),
    ...(fields.edited === true ? { edited: true as const } : {}),
  };
}

function readCall(value: unknown, where: string): ToolCall {
  const fields = asFields(value, `a call of ${where}`);
  return {
    id: asText(fields.id, `the id of a call of ${where}`),
    name: asText(fields.name, `the name of a call of ${where}`),
    arguments: asText(fields.arguments, `the arguments of a call of ${where}`),
    result: typeof fields.result === 'string' ? fields.result : null,
    ...(fields.began === true ? { began: true as const } : {}),
  };
}

/** Figures only inform: what is no number is left out. */
function readFigures(value: unknown): Figures {
  if (typeof value !== 'object' || value === null) return kNoFigures;
  const { firstToken, reasoning, whole, usage } = value as Fields;
  return {
    firstToken: asNumber(firstToken),
    reasoning: asNumber(reasoning),
    whole: asNumber(whole),
    usage: readUsage(usage),
  };
}

function readUsage(value: unknown): Figures['usage'] {
  if (typeof value !== 'object' || value === null) return null;
  const fields = value as Fields;
  const prompt = asNumber(fields.prompt_tokens);
  const completion = asNumber(fields.completion_tokens);
  if (prompt === null || completion === null) return null;
  const inner = (name: string, key: string) => asNumber((fields[name] as Fields | undefined)?.[key]) ?? 0;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: inner('prompt_tokens_details', 'cached_tokens') },
    completion_tokens_details: {
      reasoning_tokens: inner('completion_tokens_details', 'reasoning_tokens'),
      accepted_prediction_tokens: inner('completion_tokens_details', 'accepted_prediction_tokens'),
      rejected_prediction_tokens: inner('completion_tokens_details', 'rejected_prediction_tokens'),
    },
  };
}

function asFields(value: unknown, where: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Malformed(`Expected an object for ${where}.`);
  return value as Fields;
}

function asList(value: unknown, where: string): unknown[] {
  if (!Array.isArray(value)) throw new Malformed(`Expected a list for ${where}.`);
  return value;
}

function asText(value: unknown, where: string): string {
  if (typeof value !== 'string') throw new Malformed(`Expected text for ${where}.`);
  return value;
}

const asTextOr = (value: unknown, otherwise: string): string =>
  typeof value === 'string' ? value : otherwise;
const asNumber = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;
/** Dates beyond what `Date` holds would print as invalid. */
const asTime = (value: unknown, otherwise: number): number => {
  const time = asNumber(value);
  return time !== null && time >= 0 && time <= 8.64e15 ? time : otherwise;
};
