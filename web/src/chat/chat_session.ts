/** What the user does in a conversation: say, stop, ask again, edit, go on, answer for a tool. */
import { computed, effect, signal } from '@preact/signals';
import { Refused, Unreachable } from '../api/errors';
import { streamChat } from '../api/chat_stream';
import { fetchModels } from '../api/server';
import { reportLost, reportRefusal, clearRefusal } from '../api/connection';
import { composeRequest } from './compose_request';
import {
  closed,
  forked,
  hasOpenReply,
  pathOf,
  showing,
  turnOf,
  withCall,
  withMessage,
  withoutTurn,
  withTurn,
  type Conversation,
  type Reply,
  type TextFile,
  type ToolCall,
} from './conversation';
import { conversations, current, keep, open, settings } from './conversation_store';
import { watchOtherTabs } from './other_tabs';
import { kEmptyReply, ReplyBuilder } from './reply_builder';
import { thinkingOf } from './settings';
import { decide, runAllowed, runsToolsOf, stopToolsExcept, stopToolsOf, type Decision } from './tool_runs';
import { declarationOf, offeredTools, toolsKnown } from './tool_servers';

interface Run {
  conversationId: string;
  abort: AbortController;
}

/** The replies on their way in this tab, by conversation: one may stream while another is read. */
const runs = signal<Run[]>([]);

export const streamsHere = (id: string): boolean => runs.value.some((run) => run.conversationId === id);

export const isReplying = computed(() => streamsHere(current.value.id) || runsToolsOf(current.value.id));
/** Another tab streams a reply of this conversation; here it is shown as it arrives, and nothing else is sent. */
export const isElsewhere = computed(() => !isReplying.value && hasOpenReply(current.value));
export const isBusy = computed(() => isReplying.value || isElsewhere.value);

export const model = signal<string>('');
/** How hard the model can think, the least first. */
export const efforts = signal<readonly string[]>([]);
/** What the settings say, as this model has it. */
export const thinking = computed(() => thinkingOf(settings.value.thinking, efforts.value));

async function learnModel(): Promise<void> {
  const [served] = await fetchModels();
  model.value = served?.id ?? '';
  efforts.value = (served?.reasoning?.supported_efforts ?? []).filter((effort) => effort !== 'none');
}

/** Asks the server for its model; trouble shows in the banner. */
export async function greet(): Promise<void> {
  try {
    await learnModel();
    clearRefusal();
  } catch (error) {
    if (error instanceof Unreachable) reportLost();
    else if (error instanceof Refused) reportRefusal(error.message);
    else console.error(error);
  }
}

/** Ends replies whose conversation was deleted, and those whose tab has gone. */
export function watchReplies(): void {
  effect(() => {
    const known = new Set(conversations.value.map(({ id }) => id));
    for (const run of runs.peek()) if (!known.has(run.conversationId)) run.abort.abort();
    stopToolsExcept(known);
  });
  watchOtherTabs(
    streamsHere,
    () => conversations.value.filter((one) => hasOpenReply(one) && !streamsHere(one.id)).map(({ id }) => id),
    (id) => {
      const conversation = conversations.value.find((one) => one.id === id);
      if (conversation) keep({ ...closed(conversation), changed: Date.now() });
    },
  );
}

/** Sends a message after what is shown. */
export function say(text: string, files: TextFile[] = []): void {
  sayAfter(current.value.leaf, text, files);
}

function sayAfter(parent: string | null, text: string, files: TextFile[]): void {
  if (isBusy.value || (text.trim() === '' && files.length === 0)) return;
  const message = { role: 'user' as const, text, ...(files.length > 0 ? { files } : {}) };
  const conversation = withTurn(current.value, parent, message, Date.now());
  open(conversation);
  void answer(conversation, conversation.leaf);
}

/** Says something else in place of the message `id`; what was there stays beside it. */
export function resay(id: string, text: string): void {
  const turn = turnOf(current.value, id);
  if (turn?.message.role === 'user') sayAfter(turn.parent, text, turn.message.files ?? []);
}

export function stop(): void {
  for (const run of runs.value) {
    if (run.conversationId === current.value.id) run.abort.abort();
  }
  stopToolsOf(current.value.id);
}

/** Another reply in place of `id`; the one that was there stays beside it, unless it says nothing. */
export function regenerate(id: string): void {
  const turn = turnOf(current.value, id);
  if (turn?.message.role !== 'assistant' || isBusy.value) return;
  const { text, reasoning, calls } = turn.message;
  if (text || reasoning || calls.length > 0) void answer(current.value, turn.parent);
  else void stream(current.value, id, kEmptyReply);
}

/** The last reply once more, or a first one to a message that has none. */
export function regenerateLast(): void {
  const last = turnOf(current.value, current.value.leaf);
  if (last?.message.role === 'assistant') regenerate(last.id);
  else if (last && !isBusy.value) void answer(current.value, last.id);
}

/** Whether there can be more of a reply: it was cut, or the user changed it. */
export function canContinue(reply: Reply): boolean {
  const isPart = reply.ending === 'length' || reply.ending === 'stopped' || reply.ending === 'failed';
  return (isPart || reply.edited === true) && reply.text !== '' && reply.calls.length === 0;
}

/** The rest of a reply that was cut or changed. */
export function continueReply(id: string): void {
  const reply = turnOf(current.value, id)?.message;
  if (isBusy.value || reply?.role !== 'assistant' || !canContinue(reply)) return;
  void stream(current.value, id, reply);
}

/** Puts other words into the model's mouth, in place of the reply's own. */
export function editReply(id: string, text: string): void {
  const reply = turnOf(current.value, id)?.message;
  if (isBusy.value || reply?.role !== 'assistant' || reply.ending === null || text === reply.text) return;
  keep(withMessage(current.value, id, { ...reply, text, failure: null, edited: true }, Date.now()));
}

/** Deletes a message or reply, and all that followed it. */
export function deleteTurn(id: string): void {
  if (!isBusy.value) keep(withoutTurn(current.value, id, Date.now()));
}

/** Goes on in a conversation of its own, which ends with the turn `id`. */
export function forkAt(id: string): void {
  open(forked(current.value, id, Date.now()));
}

/** Shows the path through another version of a turn. */
export function showVersion(id: string): void {
  if (!isBusy.value) keep(showing(current.value, id, Date.now()));
}

export function setToolResult(id: string, callId: string, result: string): void {
  const reply = turnOf(current.value, id)?.message;
  if (reply?.role !== 'assistant') return;
  keep(withMessage(current.value, id, withCall(reply, callId, { result }), Date.now()));
}

/** What the user said to the question whether a tool may run. */
export function decideCall(id: string, call: ToolCall, decision: Decision): void {
  if (!isBusy.value || runsToolsOf(current.value.id))
    decide(current.value.id, id, call, decision, onwardFrom(current.value.id, id));
}

/** Goes on after the tools of a reply, unless the conversation has gone another way meanwhile. */
function onwardFrom(conversationId: string, id: string): () => void {
  return () => {
    const conversation = conversations.value.find((one) => one.id === conversationId);
    if (conversation?.leaf === id && !streamsHere(conversationId)) void answer(conversation, id);
  };
}

/** Goes on after the tools have said their results. */
export function continueAfterTools(): void {
  if (!isBusy.value) void answer(current.value, current.value.leaf);
}

/** A new reply after the turn `parent`. */
function answer(conversation: Conversation, parent: string | null): Promise<void> {
  const next = withTurn(conversation, parent, kEmptyReply, Date.now());
  return stream(next, next.leaf as string, kEmptyReply);
}

/** Streams the reply `id`, beginning with what `base` has of it. */
async function stream(conversation: Conversation, id: string, base: Reply): Promise<void> {
  const abort = new AbortController();
  const run = { conversationId: conversation.id, abort };
  runs.value = [...runs.value, run];
  clearRefusal();
  keep(conversation);

  const builder = new ReplyBuilder(base);
  const sent = performance.now();
  const elapsed = () => performance.now() - sent;
  const show = (reply: Reply) => {
    const now = conversations.value.find((other) => other.id === conversation.id);
    if (now) keep(withMessage(now, id, reply, Date.now()));
  };

  // Shown once a frame: several tokens may arrive in one.
  let frame = 0;
  const showSoon = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      show(builder.current);
    });
  };

  show(builder.current);
  let reply: Reply;
  try {
    if (model.value === '') await learnModel();
    const path = pathOf(conversation, id).map(({ message }) => message);
    const history = base === kEmptyReply ? path.slice(0, -1) : path;
    await toolsKnown();
    const tools = offeredTools.value.map(declarationOf);
    const wanted = { ...settings.value, thinking: thinking.value };
    const request = composeRequest(model.value, history, wanted, conversation.system, tools);
    await streamChat(request, abort.signal, (chunk) => {
      builder.add(chunk, elapsed());
      showSoon();
    });
    reply = builder.finish(elapsed());
  } catch (error) {
    if (abort.signal.aborted) {
      reply = builder.finish(elapsed(), { ending: 'stopped', failure: null });
    } else {
      // The reply shows the sentence, so the banner does not; a lost server is a state of the page besides.
      if (error instanceof Unreachable) reportLost();
      else if (!(error instanceof Refused)) console.error(error);
      const failure = error instanceof Error ? error.message : String(error);
      reply = builder.finish(elapsed(), { ending: 'failed', failure });
    }
  }
  cancelAnimationFrame(frame);
  runs.value = runs.value.filter((other) => other !== run);
  show(reply);
  if (reply.ending === 'tool_calls') runAllowed(conversation.id, id, onwardFrom(conversation.id, id));
}
