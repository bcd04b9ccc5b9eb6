import { signal } from '@preact/signals';

/** For a server that asks for a key; empty otherwise. */
export const apiKey = signal('');

export function keyHeader(): Record<string, string> {
  return apiKey.value ? { Authorization: `Bearer ${apiKey.value}` } : {};
}
