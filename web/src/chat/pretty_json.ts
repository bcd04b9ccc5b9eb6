/**
 * JSON laid out over lines, also while it is still arriving: text that ends anywhere is laid out as far as it goes.
 * Nothing but white space outside strings is changed.
 */
export function prettyJson(text: string): string {
  let out = '';
  let depth = 0;
  let inString = false;
  let escaped = false;
  const newline = () => `\n${'  '.repeat(depth)}`;
  for (let i = 0; i < text.length; i += 1) {
    const c = text.charAt(i);
    if (inString) {
      out += c;
      if (escaped) escaped = false;
      else if (c === '\\') escaped = true;
      else if (c === '"') inString = false;
      continue;
    }
    if (/\s/.test(c)) continue;
    if (c === '"') inString = true;
    if (c === '{' || c === '[') {
      const closer = /^\s*[}\]]/.exec(text.slice(i + 1));
      if (closer) {
        out += c + closer[0].trim();
        i += closer[0].length;
        continue;
      }
      depth += 1;
      out += c + newline();
    } else if (c === '}' || c === ']') {
      depth = Math.max(0, depth - 1);
      out += newline() + c;
    } else if (c === ',') {
      out += c + newline();
    } else {
      out += c === ':' ? ': ' : c;
    }
  }
  return out;
}
