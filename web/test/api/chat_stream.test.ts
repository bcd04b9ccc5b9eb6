import { afterEach, expect, test, vi } from 'vitest';
import type { ChatChunk, ChatRequest } from '../../src/api/chat_request';
import { streamChat } from '../../src/api/chat_stream';
import { Refused, Unreachable } from '../../src/api/errors';

const kRequest = {} as ChatRequest;
const never = new AbortController().signal;

function answerWith(body: string, status = 200): void {
  vi.stubGlobal('fetch', () => Promise.resolve(new Response(body, { status })));
}

async function chunksOf(): Promise<ChatChunk[]> {
  const chunks: ChatChunk[] = [];
  await streamChat(kRequest, never, (chunk) => chunks.push(chunk));
  return chunks;
}

afterEach(() => vi.unstubAllGlobals());

test('hands on every chunk up to the end', async () => {
  answerWith('data: {"choices":[]}\n\ndata: {"usage":null}\n\ndata: [DONE]\n\ndata: {"late":1}\n\n');
  expect(await chunksOf()).toEqual([{ choices: [] }, { usage: null }]);
});

test('a refusal carries the message of the server', async () => {
  answerWith('{"error":{"message":"top_p is 3, at most 1"}}', 400);
  await expect(chunksOf()).rejects.toThrow(new Refused('top_p is 3, at most 1', 400));
});

test('an error in the middle of a stream is a refusal', async () => {
  answerWith('data: {"choices":[]}\n\ndata: {"error":{"message":"out of pages"}}\n\n');
  await expect(chunksOf()).rejects.toThrow('out of pages');
});

test('a stream that is cut off, and a server that is away, are both unreachable', async () => {
  answerWith('data: {"choices":[]}\n\n');
  await expect(chunksOf()).rejects.toThrow(Unreachable);
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('refused')));
  await expect(chunksOf()).rejects.toThrow(Unreachable);
});

test('stopping is neither', async () => {
  const abort = new AbortController();
  abort.abort();
  vi.stubGlobal('fetch', () => Promise.reject(abort.signal.reason));
  await expect(streamChat(kRequest, abort.signal, () => {})).rejects.toBe(abort.signal.reason);
});
