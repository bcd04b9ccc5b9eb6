/** The MCP servers of this browser's user, and the tools that they have now. */
import { computed, effect, signal } from '@preact/signals';
import { McpClient, McpTrouble } from '../mcp/mcp_client';
import { callableName, type McpTool } from '../mcp/mcp_tool';
import { keptValue } from '../storage/kept_value';
import { settings } from './conversation_store';
import { readTools } from './settings';

export interface ToolServer {
  url: string;
  /** Sent as a bearer's; empty: none. */
  token: string;
  on: boolean;
}

interface Connection {
  client: McpClient;
  /** Null until the server has answered. */
  tools: McpTool[] | null;
  /** Why it has none. */
  trouble: string | null;
  settled: Promise<void>;
}

export interface OfferedTool {
  /** By which the model calls it. */
  name: string;
  tool: McpTool;
  client: McpClient;
}

const kMostServers = 16;

/** Null for what is no address of a server. */
export function readServerUrl(text: string): string | null {
  try {
    const url = new URL(text.trim());
    const isWeb = url.protocol === 'http:' || url.protocol === 'https:';
    url.hash = '';
    return isWeb && url.username === '' && url.password === '' ? url.href : null;
  } catch {
    return null;
  }
}

export function readToolServers(stored: unknown): ToolServer[] {
  if (!Array.isArray(stored)) return [];
  return stored.slice(0, kMostServers).flatMap((value: unknown): ToolServer[] => {
    const { url, token, on } = (value ?? {}) as Record<string, unknown>;
    const address = typeof url === 'string' ? readServerUrl(url) : null;
    if (address === null) return [];
    return [{ url: address, token: typeof token === 'string' ? token : '', on: on === true }];
  });
}

export const toolServers = keptValue<ToolServer[]>('baleen.tool_servers', readToolServers);

/** By server, of those that are on. */
const connections = signal<ReadonlyMap<string, Connection>>(new Map());
const keyOf = ({ url, token }: ToolServer) => JSON.stringify([url, token]);

/** What is known of a server: undefined while it is off. */
export const connectionOf = (server: ToolServer): Connection | undefined =>
  connections.value.get(keyOf(server));

/** Adds a server, or says why not. */
export function addToolServer(text: string, token: string): string | null {
  const url = readServerUrl(text);
  if (url === null) return 'Expected an address as in http://localhost:3000/mcp.';
  if (toolServers.value.some((other) => other.url === url)) return 'This server is in the list.';
  if (toolServers.value.length >= kMostServers) return `At most ${kMostServers} servers can be used.`;
  toolServers.value = [...toolServers.value, { url, token: token.trim(), on: true }];
  return null;
}

export function removeToolServer(url: string): void {
  toolServers.value = toolServers.value.filter((other) => other.url !== url);
}

export function switchToolServer(url: string, on: boolean): void {
  toolServers.value = toolServers.value.map((other) => (other.url === url ? { ...other, on } : other));
}

/** Asks a server anew, as after it was started. */
export function reconnect(server: ToolServer): void {
  connections.value.get(keyOf(server))?.client.close();
  const others = new Map(connections.value);
  others.set(keyOf(server), connect(server));
  connections.value = others;
}

function connect(server: ToolServer): Connection {
  const key = keyOf(server);
  const client = new McpClient(server.url, server.token);
  const settle = (found: Partial<Connection>) => {
    const now = connections.value.get(key);
    if (now?.client === client) connections.value = new Map(connections.value).set(key, { ...now, ...found });
  };
  const settled = client.listTools().then(
    (tools) => settle({ tools }),
    (error: unknown) => {
      const isKnown = error instanceof McpTrouble;
      settle({ tools: [], trouble: isKnown ? error.message : 'The server does not answer in time.' });
    },
  );
  return { client, tools: null, trouble: null, settled };
}

/** Holds a connection to every server that is on, from now on. */
export function connectToolServers(): void {
  effect(() => {
    const wanted = toolServers.value.filter(({ on }) => on);
    const before = connections.peek();
    const next = new Map(
      wanted.map((server) => [keyOf(server), before.get(keyOf(server)) ?? connect(server)]),
    );
    for (const [key, { client }] of before) if (!next.has(key)) client.close();
    connections.value = next;
  });
}

/** When every server has said what it has, or that it has nothing. */
export async function toolsKnown(): Promise<void> {
  await Promise.all([...connections.value.values()].map(({ settled }) => settled));
}

/** All tools of all servers, under names of their own, also unlike those that are declared in the settings. */
export const offeredTools = computed<OfferedTool[]>(() => {
  const declared = settings.value.toolsOn ? readTools(settings.value.tools) : null;
  const taken = new Set(declared === null || typeof declared === 'string' ? [] : declared.names);
  const offered: OfferedTool[] = [];
  for (const { client, tools } of connections.value.values()) {
    for (const tool of tools ?? []) {
      const name = callableName(tool.name, taken);
      taken.add(name);
      offered.push({ name, tool, client });
    }
  }
  return offered;
});

export const offeredTool = (name: string): OfferedTool | undefined =>
  offeredTools.value.find((offered) => offered.name === name);

/** As the protocol of chats declares it. */
export const declarationOf = ({ name, tool }: OfferedTool): unknown => ({
  type: 'function',
  function: { name, description: tool.description, parameters: tool.schema },
});
