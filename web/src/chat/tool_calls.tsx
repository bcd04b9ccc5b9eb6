import type { VNode } from 'preact';
import { isBusy, continueAfterTools, setToolResult } from './chat_session';
import type { Reply, ToolCall } from './conversation';
import { prettyJson } from './pretty_json';

/** What the model wants to have done, and the place to say what came of it. */
export function ToolCalls({ reply, id, isLast }: { reply: Reply; id: string; isLast: boolean }): VNode {
  // A call that the limit cut short is closed by the server: it can be answered too.
  const asks = isLast && (reply.ending === 'tool_calls' || reply.ending === 'length');
  const missing = reply.calls.filter((call) => call.result === null || call.result === '').length;
  return (
    <form
      class="calls"
      onSubmit={(event) => {
        event.preventDefault();
        continueAfterTools();
      }}
    >
      {reply.calls.map((call) => (
        <Card key={call.id} call={call} asks={asks} onResult={(text) => setToolResult(id, call.id, text)} />
      ))}
      {asks && (
        <div class="calls-foot">
          <span>{missing > 0 ? 'The model waits for what the tool says.' : 'Ready to go on.'}</span>
          <button type="submit" class="primary" disabled={missing > 0 || isBusy.value}>
            Continue
          </button>
        </div>
      )}
    </form>
  );
}

function Card({
  call,
  asks,
  onResult,
}: {
  call: ToolCall;
  asks: boolean;
  onResult: (text: string) => void;
}): VNode {
  return (
    <section class="call" aria-label={`Tool call ${call.name}`}>
      <header>
        <span class="call-kind">Tool</span>
        <code class="call-name">{call.name}</code>
      </header>
      <pre class="call-arguments" tabIndex={0} role="group" aria-label={`Arguments of ${call.name}`}>
        {prettyJson(call.arguments)}
      </pre>
      {asks ? (
        <label class="call-result">
          <span>Result</span>
          <textarea
            rows={2}
            value={call.result ?? ''}
            placeholder="What the tool says, as text or JSON"
            onInput={(event) => onResult(event.currentTarget.value)}
          />
        </label>
      ) : (
        call.result !== null && (
          <div class="call-result">
            <span>Result</span>
            <pre tabIndex={0}>{call.result}</pre>
          </div>
        )
      )}
    </section>
  );
}
