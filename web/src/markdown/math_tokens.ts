/**
 * Where math stands in markdown: \( \), \[ \], $$ $$, and $ $ where it cannot be a price. As marked sees these before
 * anything else at their place, backslashes, underscores and asterisks of the formula stay; inside code they are never
 * looked for.
 */
import type { TokenizerAndRendererExtension, Tokens } from 'marked';

export interface MathToken extends Tokens.Generic {
  type: 'math';
  raw: string;
  /** TeX without its delimiters. */
  source: string;
  display: boolean;
}

export const isMath = (token: { type: string }): token is MathToken => token.type === 'math';

/** A formula that is a paragraph of its own. All lengths are bounded, so that text full of openers is read quickly. */
const kBlock = /^ {0,3}(?:\$\$([^$]{1,8000}?)\$\$|\\\[([^]{1,8000}?)\\\])[ \t]*(?:\n+|$)/;
/** Back quotes end the search: they belong to code. */
const kInline = /^(?:\$\$([^$`]{1,2000}?)\$\$|\\\[([^`]{1,2000}?)\\\]|\\\(([^`]{1,2000}?)\\\))/;
/**
 * One dollar opens before a character that is no space and closes after one, not before a letter or digit, in the same
 * line. So "$5 and $10" and "$5-$10" are prices, and "$HOME:$PATH" is a path.
 */
const kDollar = /^\$(?![\s$])((?:\\[^\n]|[^\\$`\n]){1,1000}?)(?<!\s)\$(?![\w$])/;
/** "$5 or 6$": a number and then a word is a price as well. */
const kPrice = /^\d[\d.,]*\s*[kKmMbB]?[\s,]+\p{L}{2,}/u;

function token(raw: string, source: string, display: boolean): MathToken {
  return { type: 'math', raw, source: source.trim(), display };
}

export function blockMath(text: string): MathToken | undefined {
  const found = kBlock.exec(text);
  if (!found) return undefined;
  const source = found[1] ?? found[2] ?? '';
  return source.trim() === '' || source.includes('\n\n') ? undefined : token(found[0], source, true);
}

export function inlineMath(text: string): MathToken | undefined {
  const found = kInline.exec(text);
  if (found) {
    const display = found[1] ?? found[2];
    const source = display ?? found[3] ?? '';
    return source.trim() === '' ? undefined : token(found[0], source, display !== undefined);
  }
  const [raw, source] = kDollar.exec(text) ?? [];
  if (raw === undefined || source === undefined || kPrice.test(source)) return undefined;
  return token(raw, source, false);
}

/** Where the next formula may begin: marked ends its plain text there. */
function nextStart(text: string): number | undefined {
  const at = text.search(/\$|\\[([]/);
  return at < 0 ? undefined : at;
}

/** A paragraph ends at a line that begins with \[ or $$. */
function nextBlockStart(text: string): number | undefined {
  const at = text.search(/\n {0,3}(?:\\\[|\$\$)/);
  return at < 0 ? undefined : at + 1;
}

export const kMathExtensions: TokenizerAndRendererExtension[] = [
  { name: 'math', level: 'block', start: nextBlockStart, tokenizer: (text) => blockMath(text) },
  { name: 'math', level: 'inline', start: nextStart, tokenizer: (text) => inlineMath(text) },
];
