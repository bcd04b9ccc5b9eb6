import { keyHeader } from './api_key';
import type { ChatChunk, ChatRequest } from './chat_request';
import { Refused, Unreachable, errorMessage, refusalOf } from './errors';
import { EventStream } from './event_stream';

/** The text that ends a stream in the protocol. */
const kDone = '[DONE]';

/**
 * Sends a chat and hands on every chunk of the answer. Resolves at the end of the stream; throws Refused or
 * Unreachable, or what the signal was aborted with.
 */
export async function streamChat(
  request: ChatRequest,
  signal: AbortSignal,
  onChunk: (chunk: ChatChunk) => void,
): Promise<void> {
  const unlessLost = <T>(answer: Promise<T>): Promise<T> =>
    answer.catch(() => {
      signal.throwIfAborted();
      throw new Unreachable();
    });
  const response = await unlessLost(
    fetch('/v1/chat/completions', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...keyHeader() },
      body: JSON.stringify(request),
      signal,
    }),
  );
  if (!response.ok || !response.body) throw await refusalOf(response);

  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const events = new EventStream();
  for (;;) {
    const { done, value } = await unlessLost(reader.read());
    // A stream that ends without its last event was cut off.
    if (done) throw new Unreachable();
    for (const data of events.push(decoder.decode(value, { stream: true }))) {
      if (data === kDone) return;
      onChunk(parseChunk(data));
    }
  }
}

function parseChunk(data: string): ChatChunk {
  let chunk: ChatChunk;
  try {
    chunk = JSON.parse(data) as ChatChunk;
  } catch {
    throw new Refused('The server sent an event that is not JSON.', 200);
  }
  const message = errorMessage(chunk);
  if (message !== null) throw new Refused(message, 200);
  return chunk;
}
