/**
 * A client of the Model Context Protocol over streamable HTTP: lists a server's tools and calls them. Every message is a
 * POST of its own, answered with JSON or with server-sent events.
 */
import { EventStream } from '../api/event_stream';
import { readTool, resultText, type McpTool } from './mcp_tool';

/** What this client speaks first; a server may answer with an older version. */
const kVersion = '2025-06-18';
const kKnownVersions = [kVersion, '2025-03-26'];
/** Of one answer. */
const kMostBytes = 8 << 20;
const kMostTools = 256;
const kMostListPages = 32;
/** For what the server should have at hand; a call may take as long as the user lets it. */
const kPatienceMs = 30_000;

/** What a server did or said that cannot be gone on from, as a sentence. */
export class McpTrouble extends Error {}

/** The server knows this session no more. */
class SessionLost extends Error {}

interface RpcMessage {
  id?: unknown;
  method?: unknown;
  result?: unknown;
  error?: { code?: unknown; message?: unknown };
}

type Fields = Record<string, unknown>;

export class McpClient {
  private session: string | null = null;
  private version: string | null = null;
  private lastId = 0;

  /** `token` is sent as a bearer's; empty: none. */
  constructor(
    readonly url: string,
    private readonly token: string,
  ) {}

  /** All tools of the server. Throws McpTrouble. */
  async listTools(): Promise<McpTool[]> {
    const tools: McpTool[] = [];
    let cursor: unknown;
    for (let page = 0; page < kMostListPages; page += 1) {
      const params = cursor === undefined ? {} : { cursor };
      const { tools: listed, nextCursor } = await this.ask(
        'tools/list',
        params,
        AbortSignal.timeout(kPatienceMs),
      );
      if (!Array.isArray(listed))
        throw new McpTrouble('The server lists its tools in a form that is not known.');
      for (const value of listed) {
        const tool = readTool(value);
        if (tool) tools.push(tool);
      }
      if (tools.length > kMostTools)
        throw new McpTrouble(
          `The server has more than ${kMostTools} tools, which is more than this page offers.`,
        );
      if (typeof nextCursor !== 'string') return tools;
      cursor = nextCursor;
    }
    throw new McpTrouble('The list of tools has no end.');
  }

  /** What the tool says, as text. Throws McpTrouble, or what the signal was aborted with. */
  async callTool(name: string, args: Fields, signal: AbortSignal): Promise<string> {
    return resultText(await this.ask('tools/call', { name, arguments: args }, signal));
  }

  /** Says that the session is over; whether the server hears it does not matter. */
  close(): void {
    if (this.session === null) return;
    void fetch(this.url, { method: 'DELETE', headers: this.headers(), credentials: 'omit' }).catch(() => {});
    this.session = null;
    this.version = null;
  }

  /** A request in a session; a session that the server has forgotten is begun anew, once. */
  private async ask(method: string, params: Fields, signal: AbortSignal): Promise<Fields> {
    for (let tries = 0; ; tries += 1) {
      try {
        if (this.version === null) await this.initialize();
        return await this.request(method, params, signal);
      } catch (error) {
        if (!(error instanceof SessionLost)) throw error;
        this.session = null;
        this.version = null;
        if (tries > 0) throw new McpTrouble('The server forgets its sessions at once.');
      }
    }
  }

  private async initialize(): Promise<void> {
    const params = {
      protocolVersion: kVersion,
      capabilities: {},
      clientInfo: { name: 'Baleen', version: '1' },
    };
    const { protocolVersion } = await this.request('initialize', params, AbortSignal.timeout(kPatienceMs));
    if (typeof protocolVersion !== 'string' || !kKnownVersions.includes(protocolVersion))
      throw new McpTrouble(
        `The server speaks version ${String(protocolVersion)} of the protocol; this page speaks ${kKnownVersions.join(' and ')}.`,
      );
    this.version = protocolVersion;
    try {
      await this.notify({ method: 'notifications/initialized' });
    } catch (error) {
      this.version = null;
      throw error;
    }
  }

  private async request(method: string, params: Fields, signal: AbortSignal): Promise<Fields> {
    const id = (this.lastId += 1);
    let answer: RpcMessage;
    try {
      const response = await this.post({ id, method, params }, signal);
      if (method === 'initialize') this.session = response.headers.get('Mcp-Session-Id');
      answer = await this.answerTo(id, response, signal);
    } catch (error) {
      if (signal.aborted && method === 'tools/call')
        void this.notify({ method: 'notifications/cancelled', params: { requestId: id } }).catch(() => {});
      throw error;
    }
    if (answer.error)
      throw new McpTrouble(`The server refuses: ${String(answer.error.message ?? 'no reason given')}`);
    if (typeof answer.result !== 'object' || answer.result === null)
      throw new McpTrouble('The server answers without a result.');
    return answer.result as Fields;
  }

  /** A message that wants no answer. */
  private async notify(message: Fields): Promise<void> {
    const response = await this.post(message, AbortSignal.timeout(kPatienceMs));
    await response.body?.cancel();
  }

  private async post(message: Fields, signal: AbortSignal): Promise<Response> {
    const origin = new URL(this.url).origin;
    let isForbidden = false;
    const onViolation = (event: SecurityPolicyViolationEvent) => {
      isForbidden ||= event.effectiveDirective === 'connect-src' && event.blockedURI.startsWith(origin);
    };
    document.addEventListener('securitypolicyviolation', onViolation);
    try {
      const response = await fetch(this.url, {
        method: 'POST',
        headers: this.headers(),
        body: JSON.stringify({ jsonrpc: '2.0', ...message }),
        credentials: 'omit',
        cache: 'no-store',
        signal,
      });
      if (response.ok) return response;
      await response.body?.cancel();
      if (response.status === 404 && this.session !== null) throw new SessionLost();
      throw new McpTrouble(refusal(response.status));
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TypeError)) throw error;
      // The event of the policy comes after the refused request.
      await new Promise((next) => setTimeout(next));
      throw new McpTrouble(
        isForbidden
          ? `This page may not speak to ${origin}. Whoever runs Baleen can allow it with --mcp-origin ${origin}.`
          : `${this.url} does not answer, or does not let this page ask (CORS).`,
      );
    } finally {
      document.removeEventListener('securitypolicyviolation', onViolation);
    }
  }

  private headers(): Record<string, string> {
    return {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}),
      ...(this.session !== null ? { 'Mcp-Session-Id': this.session } : {}),
      ...(this.version !== null ? { 'MCP-Protocol-Version': this.version } : {}),
    };
  }

  /** The message that answers request `id`, out of JSON or a stream of events; what else comes is passed over. */
  private async answerTo(id: number, response: Response, signal: AbortSignal): Promise<RpcMessage> {
    const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream') === true;
    const events = new EventStream();
    const decoder = new TextDecoder();
    let whole = '';
    const found = (text: string): RpcMessage | undefined => {
      const messages = readMessages(text);
      for (const message of messages) if (message.method === 'ping') void this.pong(message.id);
      return messages.find((message) => message.id === id && message.method === undefined);
    };
    for await (const piece of boundedBytes(response, signal)) {
      const text = decoder.decode(piece, { stream: true });
      if (!isStream) {
        whole += text;
        continue;
      }
      for (const data of events.push(text)) {
        const answer = found(data);
        if (answer) return answer;
      }
    }
    const answer = isStream ? undefined : found(whole);
    if (!answer) throw new McpTrouble('The server ended its answer before the result.');
    return answer;
  }

  private async pong(id: unknown): Promise<void> {
    await this.notify({ id, result: {} }).catch(() => {});
  }
}

/** The body piece by piece. Ends it when the reader has enough. Throws McpTrouble for more than kMostBytes. */
async function* boundedBytes(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (!reader) return;
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        signal.throwIfAborted();
        throw new McpTrouble('The connection to the server broke.');
      });
      if (done) return;
      bytes += value.byteLength;
      if (bytes > kMostBytes)
        throw new McpTrouble(`The server answers with more than ${kMostBytes >> 20} MB.`);
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

/** One message, or several in a list. */
function readMessages(text: string): RpcMessage[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new McpTrouble('The server answers with what is not JSON.');
  }
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((one): one is RpcMessage => typeof one === 'object' && one !== null);
}

function refusal(status: number): string {
  if (status === 401 || status === 403) return `The server wants a token, or another one (status ${status}).`;
  if (status === 404 || status === 405) return `There is no MCP server at this address (status ${status}).`;
  return `The server answers with status ${status}.`;
}
