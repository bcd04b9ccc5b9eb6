/** Conversations that the server keeps, where it was started with a folder for them. */
import { keyHeader } from './api_key';
import { Refused, Unreachable, refusalOf } from './errors';

export interface KeptEntry {
  id: string;
  title: string;
  /** Milliseconds since 1970. */
  changed: number;
  version: string;
}

/** Longer than a disk needs for the largest conversation. */
const kPatienceMs = 30_000;
const kChangedMeanwhile = 412;
const kGone = 404;

const pathOf = (id: string) => `/conversations/${encodeURIComponent(id)}`;

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  try {
    return await fetch(path, {
      ...init,
      cache: 'no-store',
      headers: { ...keyHeader(), ...(init.headers as Record<string, string>) },
      signal: AbortSignal.timeout(kPatienceMs),
    });
  } catch {
    throw new Unreachable();
  }
}

/** Whether the server keeps conversations at all. */
export async function keepsConversations(): Promise<boolean> {
  const response = await ask('/page.json');
  const options = response.ok ? ((await response.json().catch(() => ({}))) as Record<string, unknown>) : {};
  return options.conversations === true;
}

export async function listKept(): Promise<KeptEntry[]> {
  const response = await ask('/conversations');
  if (!response.ok) throw await refusalOf(response);
  const { conversations } = (await response.json()) as { conversations?: KeptEntry[] };
  return (conversations ?? []).filter(
    (one) => typeof one.id === 'string' && typeof one.title === 'string' && typeof one.version === 'string',
  );
}

/** Its JSON and version; null when the server has it no more. */
export async function fetchKept(id: string): Promise<{ value: unknown; version: string } | null> {
  const response = await ask(pathOf(id));
  if (response.status === kGone) return null;
  if (!response.ok) throw await refusalOf(response);
  const version = response.headers.get('ETag')?.replaceAll('"', '') ?? '';
  try {
    return { value: await response.json(), version };
  } catch {
    throw new Refused('The server keeps this conversation in a form that is not JSON.', response.status);
  }
}

/** `version`: that which this one follows; null for a conversation that the server does not have. Null: it has another. */
export async function putKept(id: string, text: string, version: string | null): Promise<string | null> {
  const response = await ask(pathOf(id), {
    method: 'PUT',
    headers: {
      'Content-Type': 'application/json',
      ...(version === null ? { 'If-None-Match': '*' } : { 'If-Match': `"${version}"` }),
    },
    body: text,
  });
  if (response.status === kChangedMeanwhile) return null;
  if (!response.ok) throw await refusalOf(response);
  return ((await response.json()) as { version: string }).version;
}

export async function deleteKept(id: string): Promise<void> {
  const response = await ask(pathOf(id), { method: 'DELETE' });
  if (!response.ok && response.status !== kGone) throw await refusalOf(response);
}
