/** Markdown as marked's tokens, or nothing where reading it would cost too much. */
import { Marked, type MarkedToken } from 'marked';
import { kMathExtensions } from './math_tokens';

const parser = new Marked({ gfm: true, extensions: kMathExtensions });

/** Marked looks from each opener of emphasis to the end of its paragraph: the time grows with the square. */
const kMostOpeners = 600;
/** It reads quotations by recursion. */
const kDeepQuote = /^[ \t]*(?:>[ \t]*){50}/;

/** Null: the text is to be shown as it stands. */
export function parseMarkdown(text: string): MarkedToken[] | null {
  if (!isReasonable(text)) return null;
  try {
    return parser.lexer(text) as MarkedToken[];
  } catch {
    return null;
  }
}

function isReasonable(text: string): boolean {
  let fence: string | null = null;
  let openers = 0;
  for (const line of text.split('\n')) {
    const mark: string | undefined = /^ {0,3}(```|~~~)/.exec(line)?.[1];
    if (mark && (fence === null || fence === mark)) fence = fence === null ? mark : null;
    if (fence !== null || line.trim() === '') openers = 0;
    else openers += line.match(/[*_~]/g)?.length ?? 0;
    if (openers > kMostOpeners || kDeepQuote.test(line)) return false;
  }
  return true;
}
