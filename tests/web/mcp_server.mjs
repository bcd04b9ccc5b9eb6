// A server of the Model Context Protocol over streamable HTTP, with what a test wants to see of its clients.
import { createServer } from 'node:http';

const kTools = [
  {
    name: 'roll.dice',
    description: 'Rolls dice.',
    inputSchema: {
      type: 'object',
      properties: { sides: { type: 'string', enum: ['six', 'twenty'] } },
      required: ['sides'],
      additionalProperties: false,
    },
  },
];

/** `calls` collects what was run. `wait`: a call is answered when `release` is called. */
export async function startMcpServer({ wait = false, tools = kTools, result = 'You rolled 4.' } = {}) {
  const self = { calls: [], cancelled: [], sessions: 0, heads: [], waiting: [] };
  let session = null;
  const server = createServer(async (incoming, outgoing) => {
    const cors = {
      'Access-Control-Allow-Origin': incoming.headers.origin ?? '*',
      'Access-Control-Allow-Headers':
        'content-type, accept, authorization, mcp-session-id, mcp-protocol-version',
      'Access-Control-Allow-Methods': 'POST, DELETE',
      'Access-Control-Expose-Headers': 'Mcp-Session-Id',
    };
    if (incoming.method !== 'POST') return void outgoing.writeHead(204, cors).end();
    let text = '';
    for await (const piece of incoming) text += piece;
    const message = JSON.parse(text);
    self.heads.push({ method: message.method, ...incoming.headers });
    const answer = (body, headers = {}) =>
      outgoing
        .writeHead(200, { ...cors, 'Content-Type': 'application/json', ...headers })
        .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...body }));
    if (message.method === 'initialize') {
      self.sessions += 1;
      session = `session-${self.sessions}`;
      const { protocolVersion } = message.params;
      return answer(
        {
          result: {
            protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: 'dice', version: '1' },
          },
        },
        { 'Mcp-Session-Id': session },
      );
    }
    if (incoming.headers['mcp-session-id'] !== session) return void outgoing.writeHead(404, cors).end();
    if (message.method === 'notifications/cancelled') self.cancelled.push(message.params.requestId);
    if (message.id === undefined || message.method === undefined)
      return void outgoing.writeHead(202, cors).end();
    if (message.method === 'tools/list') {
      // In pages of one.
      const at = Number(message.params.cursor ?? 0);
      const next = at + 1 < tools.length ? { nextCursor: String(at + 1) } : {};
      return answer({ result: { tools: tools.slice(at, at + 1), ...next } });
    }
    if (message.method !== 'tools/call')
      return answer({ error: { code: -32601, message: 'Method not found' } });
    self.calls.push(message.params);
    // As events, with others before the answer.
    outgoing.writeHead(200, { ...cors, 'Content-Type': 'text/event-stream' });
    const send = (event) =>
      outgoing.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...event })}\n\n`);
    send({ method: 'notifications/progress', params: { progress: 1 } });
    send({ id: message.id, method: 'ping' });
    const finish = () => {
      send({ id: message.id, result: { content: [{ type: 'text', text: result }] } });
      outgoing.end();
    };
    if (wait) self.waiting.push(finish);
    else finish();
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return Object.assign(self, {
    url: `http://127.0.0.1:${server.address().port}/mcp`,
    /** As after a restart: the session is known no more. */
    forget: () => {
      session = null;
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    },
  });
}
