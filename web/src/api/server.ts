import { keyHeader } from './api_key';
import { Refused, Unreachable, refusalOf } from './errors';
import type { Stats } from './stats';

/** Longer than the server needs to answer anything but a chat. */
const kPatienceMs = 5000;

async function get(path: string): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      cache: 'no-store',
      headers: keyHeader(),
      signal: AbortSignal.timeout(kPatienceMs),
    });
  } catch {
    throw new Unreachable();
  }
  if (!response.ok) throw await refusalOf(response);
  return response;
}

async function getJson<T>(path: string): Promise<T> {
  const response = await get(path);
  try {
    return (await response.json()) as T;
  } catch {
    throw new Refused(`The server's answer to ${path} is not JSON.`, response.status);
  }
}

/** Whether anything answers; a server that is draining answers too, with an error of its own. */
export async function isReachable(): Promise<boolean> {
  try {
    await get('/health');
    return true;
  } catch (error) {
    return error instanceof Refused;
  }
}

/** A model as the server lists it, as far as this page uses it. */
export interface ServedModel {
  id: string;
  /** The least first; the first is "none". */
  reasoning?: { supported_efforts?: string[] };
}

export async function fetchModels(): Promise<ServedModel[]> {
  const list = await getJson<{ data?: ServedModel[] }>('/v1/models');
  return list.data ?? [];
}

/** `withHistory`: with the counters of the last minutes. */
export const fetchStats = (withHistory: boolean): Promise<Stats> =>
  getJson<Stats>(withHistory ? '/stats?history=1' : '/stats');
