/** What the user does in a conversation: say, stop, ask again, edit, answer for a tool. */
import { computed, signal } from '@preact/signals';
import { Refused, Unreachable } from '../api/errors';
import { streamChat } from '../api/chat_stream';
import { fetchModels } from '../api/server';
import { reportLost, reportRefusal, clearRefusal } from '../api/connection';
import { composeRequest } from './compose_request';
import {
  cutBefore,
  withReply,
  withToolResult,
  withUserMessage,
  type Conversation,
  type Reply,
} from './conversation';
import { conversations, current, keep, settings } from './conversation_store';
import { ReplyBuilder } from './reply_builder';

interface Run {
  conversationId: string;
  abort: AbortController;
}

/** The replies on their way, by conversation: one may stream while another is read. */
const runs = signal<Run[]>([]);

export const isReplying = computed(() => runs.value.some((run) => run.conversationId === current.value.id));

export const model = signal<string>('');

async function learnModel(): Promise<void> {
  const names = await fetchModels();
  model.value = names[0] ?? '';
}

/** Asks the server for its model; trouble shows in the banner. */
export async function greet(): Promise<void> {
  try {
    await learnModel();
    clearRefusal();
  } catch (error) {
    report(error);
  }
}

function report(error: unknown): void {
  if (error instanceof Unreachable) reportLost();
  else if (error instanceof Refused) reportRefusal(error.message);
  else console.error(error);
}

export function say(text: string): void {
  if (isReplying.value || text.trim() === '') return;
  const conversation = withUserMessage(current.value, text, Date.now());
  conversations.value = [conversation, ...conversations.value.filter(({ id }) => id !== conversation.id)];
  void answer(conversation);
}

export function stop(): void {
  for (const run of runs.value) {
    if (run.conversationId === current.value.id) run.abort.abort();
  }
}

/** Answers again what stands before the message at `index`. */
export function regenerate(index: number): void {
  if (isReplying.value) return;
  void answer(cutBefore(current.value, index));
}

/** Says something else at `index`, and drops what followed. */
export function resay(index: number, text: string): void {
  if (isReplying.value || text.trim() === '') return;
  void answer(withUserMessage(cutBefore(current.value, index), text, Date.now()));
}

export function setToolResult(index: number, callId: string, result: string): void {
  const reply = current.value.messages[index];
  if (reply?.role !== 'assistant') return;
  keep(withReply(current.value, index, withToolResult(reply, callId, result), Date.now()));
}

/** Goes on after the tools have said their results. */
export function continueAfterTools(): void {
  if (!isReplying.value) void answer(current.value);
}

/** The last reply once more. */
export function retry(): void {
  const last = current.value.messages.length - 1;
  if (current.value.messages[last]?.role === 'assistant') regenerate(last);
  else if (last >= 0) continueAfterTools();
}

async function answer(conversation: Conversation): Promise<void> {
  const abort = new AbortController();
  const run = { conversationId: conversation.id, abort };
  runs.value = [...runs.value, run];
  clearRefusal();

  const index = conversation.messages.length;
  const builder = new ReplyBuilder();
  const sent = performance.now();
  const elapsed = () => performance.now() - sent;
  const show = (reply: Reply) => {
    const now = conversations.value.find(({ id }) => id === conversation.id);
    if (now) keep(withReply({ ...conversation, title: now.title }, index, reply, Date.now()));
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
    const request = composeRequest(model.value, conversation.messages, settings.value);
    await streamChat(request, abort.signal, (chunk) => {
      builder.add(chunk, elapsed());
      showSoon();
    });
    reply = builder.finish(elapsed());
  } catch (error) {
    if (abort.signal.aborted) {
      reply = builder.finish(elapsed(), { ending: 'stopped', failure: null });
    } else {
      report(error);
      const failure = error instanceof Error ? error.message : String(error);
      reply = builder.finish(elapsed(), { ending: 'failed', failure });
    }
  }
  cancelAnimationFrame(frame);
  runs.value = runs.value.filter((other) => other !== run);
  show(reply);
}
