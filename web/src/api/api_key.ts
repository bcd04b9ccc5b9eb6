import { keptValue } from '../storage/kept_value';

/** For a server that asks for a key; empty otherwise. */
export const apiKey = keptValue<string>('baleen.api_key', (stored) =>
  typeof stored === 'string' ? stored : '',
);

export function keyHeader(): Record<string, string> {
  return apiKey.value ? { Authorization: `Bearer ${apiKey.value}` } : {};
}
