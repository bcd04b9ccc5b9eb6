/**
 * Calls that the page runs itself, at the user's MCP servers. Each is asked about first, unless this tool was always
 * allowed in this conversation: that is remembered by this tab alone, for the tool as it was described then. A call that
 * was begun once is never begun again without being asked about, whatever tab or reload.
 */
import { signal } from '@preact/signals';
import { McpTrouble } from '../mcp/mcp_client';
import {
  pathOf,
  turnOf,
  withCall,
  withMessage,
  type Conversation,
  type Reply,
  type ToolCall,
} from './conversation';
import { conversations, keep } from './conversation_store';
import { offeredTool, type OfferedTool } from './tool_servers';

export type Decision = 'once' | 'always' | 'deny';

/** Replies in a row that tools may lead to before the user is asked even about a tool that is always allowed. */
const kMostRounds = 25;
const kDenied = 'The user did not allow this call.';
const kStopped = 'The user stopped this call.';

interface Run {
  conversationId: string;
  turnId: string;
  callId: string;
  abort: AbortController;
}

const runs = signal<Run[]>([]);
const allowed = new Set<string>();

const grantOf = (conversationId: string, { client, tool }: OfferedTool) =>
  JSON.stringify([conversationId, client.url, tool]);

export const runsToolsOf = (conversationId: string): boolean =>
  runs.value.some((run) => run.conversationId === conversationId);

export const isRunning = (turnId: string, callId: string): boolean =>
  runs.value.some((run) => run.turnId === turnId && run.callId === callId);

export function stopToolsOf(conversationId: string): void {
  for (const run of runs.value) if (run.conversationId === conversationId) run.abort.abort();
}

/** Ends the calls of conversations that were deleted. */
export function stopToolsExcept(known: ReadonlySet<string>): void {
  for (const run of runs.peek()) if (!known.has(run.conversationId)) run.abort.abort();
}

/** The arguments, when they are whole: a call that was cut is never run. */
export function argumentsOf(call: ToolCall): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(call.arguments || '{}');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

/** The tool that can run this call of a reply that ended with it; undefined where the user answers. */
export function toolFor(reply: Reply, call: ToolCall): OfferedTool | undefined {
  return reply.ending === 'tool_calls' && argumentsOf(call) !== null ? offeredTool(call.name) : undefined;
}

/** Runs those calls of a reply that has just ended which need no question. */
export function runAllowed(conversationId: string, turnId: string, onward: () => void): void {
  const conversation = conversations.value.find(({ id }) => id === conversationId);
  const reply = conversation && turnOf(conversation, turnId)?.message;
  if (!conversation || reply?.role !== 'assistant' || roundsOf(conversation, turnId) >= kMostRounds) return;
  for (const call of reply.calls) {
    const offered = toolFor(reply, call);
    if (offered && !call.began && allowed.has(grantOf(conversationId, offered)))
      void run(conversationId, turnId, call, offered, onward);
  }
}

/** Replies since the user last said something. */
function roundsOf(conversation: Conversation, turnId: string): number {
  const path = pathOf(conversation, turnId);
  return path.length - 1 - path.findLastIndex(({ message }) => message.role === 'user');
}

/** What the user said to the question about a call. `onward` goes on when the reply's calls are all answered. */
export function decide(
  conversationId: string,
  turnId: string,
  call: ToolCall,
  decision: Decision,
  onward: () => void,
): void {
  const offered = offeredTool(call.name);
  if (decision === 'deny' || !offered) return answer(conversationId, turnId, call.id, kDenied, onward);
  if (decision === 'always') allowed.add(grantOf(conversationId, offered));
  void run(conversationId, turnId, call, offered, onward);
}

async function run(
  conversationId: string,
  turnId: string,
  call: ToolCall,
  { client, tool }: OfferedTool,
  onward: () => void,
): Promise<void> {
  const args = argumentsOf(call);
  if (args === null || isRunning(turnId, call.id)) return;
  const own: Run = { conversationId, turnId, callId: call.id, abort: new AbortController() };
  runs.value = [...runs.value, own];
  change(conversationId, turnId, call.id, { began: true });
  let result: string;
  let goesOn = onward;
  try {
    result = await client.callTool(tool.name, args, own.abort.signal);
  } catch (error) {
    if (own.abort.signal.aborted) {
      result = kStopped;
      goesOn = () => {};
    } else {
      if (!(error instanceof McpTrouble)) console.error(error);
      result = `Error: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  runs.value = runs.value.filter((other) => other !== own);
  answer(conversationId, turnId, call.id, result, goesOn);
}

function answer(
  conversationId: string,
  turnId: string,
  callId: string,
  result: string,
  onward: () => void,
): void {
  const reply = change(conversationId, turnId, callId, { result });
  // Where the user answers for some of the tools, the user says when all is said.
  if (reply?.calls.every((call) => call.result !== null && toolFor(reply, call))) onward();
}

function change(
  conversationId: string,
  turnId: string,
  callId: string,
  changes: Partial<ToolCall>,
): Reply | null {
  const conversation = conversations.value.find(({ id }) => id === conversationId);
  const reply = conversation && turnOf(conversation, turnId)?.message;
  if (!conversation || reply?.role !== 'assistant') return null;
  const next = withCall(reply, callId, changes);
  keep(withMessage(conversation, turnId, next, Date.now()));
  return next;
}
