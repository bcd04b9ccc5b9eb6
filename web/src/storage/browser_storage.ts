/** The browser's storage; null where it is closed to this page: reading the property itself throws then. */
export function browserStorage(kind: 'localStorage' | 'sessionStorage'): Storage | null {
  try {
    return window[kind];
  } catch {
    return null;
  }
}
