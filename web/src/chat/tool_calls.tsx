import type { VNode } from 'preact';
import { continueAfterTools, decideCall, isElsewhere, setToolResult } from './chat_session';
import type { Reply, ToolCall } from './conversation';
import { prettyJson } from './pretty_json';
import { isRunning, toolFor } from './tool_runs';
import type { OfferedTool } from './tool_servers';

/** What the model wants to have done: a question about each call that a server can do, a place to answer for others. */
export function ToolCalls({ reply, id, isLast }: { reply: Reply; id: string; isLast: boolean }): VNode {
  const asks = isLast && (reply.ending === 'tool_calls' || reply.ending === 'length');
  const missing = reply.calls.filter((call) => call.result === null || call.result === '').length;
  const isBusy = reply.calls.some((call) => isRunning(id, call.id));
  // Where every call is a question, its answer is what the model waits for.
  const isForUser = missing === 0 || reply.calls.some((call) => call.began || !toolFor(reply, call));
  return (
    <form
      class="calls"
      onSubmit={(event) => {
        event.preventDefault();
        continueAfterTools();
      }}
    >
      {reply.calls.map((call) => (
        <Card key={call.id} call={call} reply={reply} turnId={id} asks={asks} />
      ))}
      {asks && !isBusy && isForUser && (
        <div class="calls-foot">
          <span>{missing > 0 ? 'The model waits for what the tool says.' : 'Ready to go on.'}</span>
          <button type="submit" class="primary" disabled={missing > 0 || isElsewhere.value}>
            Continue
          </button>
        </div>
      )}
    </form>
  );
}

interface CardProps {
  call: ToolCall;
  reply: Reply;
  turnId: string;
  asks: boolean;
}

function Card({ call, reply, turnId, asks }: CardProps): VNode {
  const offered = asks && call.result === null ? toolFor(reply, call) : undefined;
  return (
    <section class="call" aria-label={`Tool call ${call.name}`}>
      <header>
        <span class="call-kind">Tool</span>
        <code class="call-name">{call.name}</code>
      </header>
      <pre class="call-arguments" tabIndex={0} role="group" aria-label={`Arguments of ${call.name}`}>
        {prettyJson(call.arguments)}
      </pre>
      {isRunning(turnId, call.id) ? (
        <p class="call-runs" role="status">
          The tool runs. Stop ends it.
        </p>
      ) : (
        <>
          {offered && <Question call={call} turnId={turnId} offered={offered} />}
          {asks && (!offered || call.began) && <ResultField call={call} turnId={turnId} />}
          {!asks && call.result !== null && (
            <div class="call-result">
              <span>Result</span>
              <pre tabIndex={0}>{call.result}</pre>
            </div>
          )}
        </>
      )}
    </section>
  );
}

function ResultField({ call, turnId }: { call: ToolCall; turnId: string }): VNode {
  return (
    <label class="call-result">
      <span>Result</span>
      <textarea
        rows={2}
        value={call.result ?? ''}
        placeholder="What the tool says, as text or JSON"
        onInput={(event) => setToolResult(turnId, call.id, event.currentTarget.value)}
      />
    </label>
  );
}

/** Nothing runs before it is answered. */
function Question({
  call,
  turnId,
  offered,
}: {
  call: ToolCall;
  turnId: string;
  offered: OfferedTool;
}): VNode {
  const { tool, client } = offered;
  return (
    <div class="call-question" role="group" aria-label={`May ${call.name} run?`}>
      <p>
        {call.began
          ? 'This call was begun, and what came of it is not known. Run it once more?'
          : 'May this tool run with these arguments?'}{' '}
        It is <code>{tool.name}</code> at <code>{client.url}</code>.
      </p>
      {tool.description !== '' && (
        <details>
          <summary>What the server says of it</summary>
          <p>{tool.description}</p>
        </details>
      )}
      <div class="call-decisions">
        <button type="button" class="primary" onClick={() => decideCall(turnId, call, 'once')}>
          Allow once
        </button>
        <button type="button" onClick={() => decideCall(turnId, call, 'always')}>
          Always in this conversation
        </button>
        <button type="button" class="danger" onClick={() => decideCall(turnId, call, 'deny')}>
          Deny
        </button>
      </div>
    </div>
  );
}
