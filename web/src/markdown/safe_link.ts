const kSchemes = ['http:', 'https:', 'mailto:'];

/** Absolute addresses of the schemes above: nothing that runs, and nothing on this server. */
export function isSafeLink(href: string): boolean {
  try {
    return kSchemes.includes(new URL(href).protocol);
  } catch {
    return false;
  }
}
