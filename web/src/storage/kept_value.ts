/** A value of this browser: a signal, written through to localStorage, that follows the other tabs. */
import { effect, signal, type Signal } from '@preact/signals';

export function readKept(key: string): unknown {
  try {
    const text = localStorage.getItem(key);
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

/** `read` makes a value of whatever was stored; null stands for nothing. */
export function keptValue<T>(key: string, read: (stored: unknown) => T): Signal<T> {
  const value = signal(read(readKept(key)));
  effect(() => {
    const text = JSON.stringify(value.value);
    try {
      if (localStorage.getItem(key) !== text) localStorage.setItem(key, text);
    } catch {
      // Nothing is remembered then.
    }
  });
  globalThis.addEventListener?.('storage', (event) => {
    if (event.storageArea === localStorage && event.key === key) value.value = read(readKept(key));
  });
  return value;
}
