// A proxy before the real server, through which replies come when a test says so: event by event, whatever
// the speed of the machine. Everything else passes as it is.
import { createServer, request } from 'node:http';

const kChatPath = '/v1/chat/completions';

/** A reply on its way: its events wait here until they are released. */
class HeldReply {
  #waiting = [];
  #allowance = 0;
  #ended = false;
  #rest = '';

  constructor(target) {
    this.target = target;
  }
  push(text) {
    const pieces = (this.#rest + text).split(/(?<=\n\n)/);
    this.#rest = pieces.at(-1)?.endsWith('\n\n') ? '' : (pieces.pop() ?? '');
    this.#waiting.push(...pieces);
    this.#flow();
  }
  end() {
    this.#ended = true;
    this.#flow();
  }
  /** Lets so many more events pass, as soon as they are there; Infinity: all. */
  release(count) {
    this.#allowance += count;
    this.#flow();
  }
  #flow() {
    while (this.#waiting.length > 0 && this.#allowance > 0) {
      this.target.write(this.#waiting.shift());
      this.#allowance -= 1;
    }
    if (this.#ended && this.#waiting.length === 0) this.target.end(this.#rest);
  }
}

/** Starts the proxy; `serverUrl` gives the address of the server, which may change. */
export async function holdStreams(serverUrl) {
  const replies = [];
  const arrivals = [];
  const proxy = createServer((incoming, outgoing) => {
    const { host, port } = new URL(serverUrl());
    const isChat = incoming.url === kChatPath;
    const upstream = request(
      {
        host: new URL(serverUrl()).hostname,
        port,
        path: incoming.url,
        method: incoming.method,
        headers: { ...incoming.headers, host, origin: `http://${host}` },
      },
      (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        const isStream = answer.headers['content-type']?.startsWith('text/event-stream');
        if (!isChat || !isStream) return void answer.pipe(outgoing);
        outgoing.flushHeaders();
        const held = new HeldReply(outgoing);
        replies.push(held);
        arrivals.shift()?.(held);
        answer.setEncoding('utf8').on('data', (text) => held.push(text));
        answer.on('end', () => held.end());
      },
    );
    upstream.on('error', () => outgoing.destroy());
    outgoing.on('close', () => upstream.destroy());
    incoming.pipe(upstream);
  });
  await new Promise((listening) => proxy.listen(0, '127.0.0.1', listening));
  let taken = 0;
  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    /** The next reply that begins; none of its events has passed. */
    async nextReply() {
      const held = replies[taken] ?? (await new Promise((arrived) => arrivals.push(arrived)));
      taken += 1;
      return held;
    },
    close: () => {
      proxy.closeAllConnections();
      return new Promise((closed) => proxy.close(closed));
    },
  };
}
