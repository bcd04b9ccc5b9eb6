/**
 * A conversation is a tree of turns, of which one path is shown: a reply that is generated again and a message that is
 * edited become siblings of what was there. Values are never changed in place: every operation returns a new one.
 */
import type { Figures } from './figures';

export interface TextFile {
  name: string;
  text: string;
}

export interface UserMessage {
  role: 'user';
  text: string;
  /** Text files sent with the message; absent when there are none. */
  files?: TextFile[];
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON, perhaps not all of it yet. */
  arguments: string;
  /** What the tool said, typed by the user or from a server; null until then. */
  result: string | null;
  /** A tab of this browser began to run it; absent when not. */
  began?: true;
}

export const kEndings = ['stop', 'length', 'repetition', 'tool_calls', 'stopped', 'failed'] as const;
/** Why a reply is over; null while it streams. */
export type Ending = (typeof kEndings)[number];

export interface Reply {
  role: 'assistant';
  reasoning: string;
  text: string;
  calls: ToolCall[];
  ending: Ending | null;
  /** The sentence that explains 'failed'. */
  failure: string | null;
  figures: Figures;
  /** The user changed its text; absent when not. */
  edited?: true;
}

export type Message = UserMessage | Reply;

export interface Turn {
  /** Unique in the conversation. */
  id: string;
  /** The turn that this one follows; null at the beginning. */
  parent: string | null;
  /** Milliseconds since 1970. */
  at: number;
  message: Message;
}

export interface Conversation {
  id: string;
  title: string;
  /** Milliseconds since 1970, of the last change of any kind. */
  changed: number;
  /** Replaces the system prompt of the settings; null: that one holds. */
  system: string | null;
  /** In the order in which they were made: a parent stands before its children. */
  turns: Turn[];
  /** The last turn of the path that is shown; null while there is none. */
  leaf: string | null;
  /** Ids of turns that were deleted, so that a record of another tab does not bring them back; absent without any. */
  removed?: string[];
}

const kTitleLength = 48;
export const kUntitled = 'New conversation';

/** Unique among all tabs; `crypto.randomUUID` is absent from pages that came over plain HTTP. */
export function newId(now: number): string {
  return `${now.toString(36)}-${Math.random().toString(36).slice(2)}`;
}

export function newConversation(now: number): Conversation {
  return { id: newId(now), title: kUntitled, changed: now, system: null, turns: [], leaf: null };
}

/** The first words of what the user said. */
export function titleFrom(text: string): string {
  const line = [...text.trim().replace(/\s+/g, ' ')];
  if (line.length <= kTitleLength) return line.join('') || kUntitled;
  const lastSpace = line.lastIndexOf(' ', kTitleLength);
  const end = lastSpace > kTitleLength / 2 ? lastSpace : kTitleLength;
  return `${line.slice(0, end).join('')}…`;
}

/** The turns from the first one to `last`, or to the leaf. Linear in all turns. */
export function pathOf(conversation: Conversation, last: string | null = conversation.leaf): Turn[] {
  const byId = new Map(conversation.turns.map((turn) => [turn.id, turn]));
  const path: Turn[] = [];
  for (let turn = byId.get(last ?? ''); turn; turn = byId.get(turn.parent ?? '')) path.push(turn);
  return path.reverse();
}

/** The turns that follow each turn, in the order in which they were made. The key null has the first ones. */
export function childrenOf(conversation: Conversation): Map<string | null, Turn[]> {
  const children = new Map<string | null, Turn[]>();
  for (const turn of conversation.turns) {
    const siblings = children.get(turn.parent);
    if (siblings) siblings.push(turn);
    else children.set(turn.parent, [turn]);
  }
  return children;
}

export function turnOf(conversation: Conversation, id: string | null): Turn | undefined {
  return conversation.turns.find((turn) => turn.id === id);
}

/** Adds a turn after `parent` and shows it. */
export function withTurn(
  conversation: Conversation,
  parent: string | null,
  message: Message,
  now: number,
): Conversation {
  const turn: Turn = { id: newId(now), parent, at: now, message };
  const named = message.role === 'user' && conversation.title === kUntitled;
  return {
    ...conversation,
    title: named ? titleFrom(message.text || (message.files?.[0]?.name ?? '')) : conversation.title,
    changed: now,
    turns: [...conversation.turns, turn],
    leaf: turn.id,
  };
}

export function withMessage(
  conversation: Conversation,
  id: string,
  message: Message,
  now: number,
): Conversation {
  return {
    ...conversation,
    changed: now,
    turns: conversation.turns.map((turn) => (turn.id === id ? { ...turn, message } : turn)),
  };
}

/** Shows the path through the turn `id`, down to the newest of what followed it. */
export function showing(conversation: Conversation, id: string, now: number): Conversation {
  const below = new Set([id]);
  let leaf = id;
  for (const turn of conversation.turns) {
    if (turn.parent === null || !below.has(turn.parent)) continue;
    below.add(turn.id);
    leaf = turn.id;
  }
  return { ...conversation, changed: now, leaf };
}

/** Without the turn `id` and all that followed it, in every version. What is shown is the nearest of what is left. */
export function withoutTurn(conversation: Conversation, id: string, now: number): Conversation {
  const gone = new Set([id]);
  for (const { id: other, parent } of conversation.turns)
    if (parent !== null && gone.has(parent)) gone.add(other);
  const parent = turnOf(conversation, id)?.parent ?? null;
  const turns = conversation.turns.filter((turn) => !gone.has(turn.id));
  const left: Conversation = {
    ...conversation,
    changed: now,
    turns,
    removed: [...(conversation.removed ?? []), ...gone],
  };
  if (conversation.leaf !== null && !gone.has(conversation.leaf)) return left;
  const sibling = turns.findLast((turn) => turn.parent === parent);
  return sibling ? showing(left, sibling.id, now) : { ...left, leaf: parent };
}

/**
 * A conversation of its own that begins as this one: all of it, or with `last` what leads to that turn. Replies that
 * still stream are stopped in it.
 */
export function forked(conversation: Conversation, last: string | null, now: number): Conversation {
  const { removed: _, ...kept } = closed(conversation);
  return {
    ...kept,
    id: newId(now),
    title: `${conversation.title} (fork)`,
    changed: now,
    ...(last === null ? {} : { turns: pathOf(kept, last), leaf: last }),
  };
}

export function withCall(reply: Reply, callId: string, changes: Partial<ToolCall>): Reply {
  return {
    ...reply,
    calls: reply.calls.map((call) => (call.id === callId ? { ...call, ...changes } : call)),
  };
}

export const isOpen = ({ message }: Turn): boolean => message.role === 'assistant' && message.ending === null;

/** Whether a reply of it streams, here or in another tab. */
export function hasOpenReply(conversation: Conversation): boolean {
  return conversation.turns.some(isOpen);
}

/** With the replies that streamed when their page went away marked as stopped. */
export function closed(conversation: Conversation): Conversation {
  if (!hasOpenReply(conversation)) return conversation;
  const close = (turn: Turn): Turn =>
    isOpen(turn) ? { ...turn, message: { ...(turn.message as Reply), ending: 'stopped' } } : turn;
  return { ...conversation, turns: conversation.turns.map(close) };
}

/**
 * Two versions of a conversation that was changed in two tabs: the turns of both; what both have is taken from the one
 * that changed last, but a reply that is over is never replaced by one that streams. What either deleted is gone.
 */
export function merged(mine: Conversation, theirs: Conversation): Conversation {
  const newer = theirs.changed >= mine.changed ? theirs : mine;
  const other = newer === theirs ? mine : theirs;
  const newerTurns = new Map(newer.turns.map((turn) => [turn.id, turn]));
  const pick = (turn: Turn): Turn => {
    const candidate = newerTurns.get(turn.id);
    if (!candidate) return turn;
    return isOpen(candidate) && !isOpen(turn) ? turn : candidate;
  };
  const known = new Set(other.turns.map(({ id }) => id));
  const removed = new Set([...(mine.removed ?? []), ...(theirs.removed ?? [])]);
  const all = [...other.turns.map(pick), ...newer.turns.filter(({ id }) => !known.has(id))];
  if (removed.size === 0) return { ...newer, turns: all };
  // What one tab added below a turn that the other one deleted goes with it.
  const turns: Turn[] = [];
  for (const turn of all) {
    if (removed.has(turn.id) || (turn.parent !== null && removed.has(turn.parent))) removed.add(turn.id);
    else turns.push(turn);
  }
  const leaf = turns.some(({ id }) => id === newer.leaf) ? newer.leaf : (turns.at(-1)?.id ?? null);
  return { ...newer, turns, leaf, removed: [...removed] };
}

/** When something was last said in it. */
export function lastSaid(conversation: Conversation): number {
  return conversation.turns.reduce((latest, { at }) => Math.max(latest, at), 0) || conversation.changed;
}
