import type { TextFile } from './conversation';
import { isPdf, readPdf } from './pdf_files';

/** A megabyte is some 300,000 tokens. */
export const kMostFileBytes = 1 << 20;

/** The file's text, a PDF's too, or a sentence that says why it cannot be sent. */
export async function readTextFile(file: File): Promise<TextFile | string> {
  if (await isPdf(file)) return readPdf(file);
  if (file.size > kMostFileBytes)
    return `${file.name} has ${file.size.toLocaleString('en')} bytes; at most ${kMostFileBytes.toLocaleString('en')} can be sent.`;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (text.includes('\0')) return `${file.name} is not a text file.`;
    return { name: file.name, text };
  } catch {
    return `${file.name} is not a text file in UTF-8.`;
  }
}
