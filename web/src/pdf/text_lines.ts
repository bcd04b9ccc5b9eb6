/** Text as a PDF places it on a page, in the order of the file. */
export interface PlacedText {
  str: string;
  /** The line ends after it. */
  hasEOL: boolean;
  /** Where it begins is transform[4], transform[5]: to the right and up, in the page's units. */
  transform: number[];
  height: number;
}

/** A gap between lines of so many line heights begins a paragraph. */
const kParagraphGap = 1.6;

/** The lines of a page; paragraphs that stand apart are parted by an empty line. */
export function linesOf(items: readonly PlacedText[]): string {
  let text = '';
  let lineY: number | null = null;
  let lineHeight = 0;
  let isNewLine = true;
  for (const { str, hasEOL, transform, height } of items) {
    const y = transform[5] ?? 0;
    if (isNewLine && str.trim() !== '') {
      if (lineY !== null && lineY - y > kParagraphGap * Math.max(lineHeight, height)) text += '\n';
      lineY = y;
      lineHeight = height;
      isNewLine = false;
    }
    text += str;
    if (!hasEOL) continue;
    text = `${text.trimEnd()}\n`;
    isNewLine = true;
  }
  return text.replace(/\n{3,}/g, '\n\n').trim();
}
