/**
 * The worker that reads PDF files: a script of its own, loaded when a PDF is first attached. It runs without a page, and
 * under a policy that lets it load nothing and speak to no one.
 */
import { getDocument } from 'pdfjs-dist';
import * as pdfWorker from 'pdfjs-dist/build/pdf.worker.mjs';
import { linesOf, type PlacedText } from './text_lines';

export interface PdfRequest {
  bytes: ArrayBuffer;
  /** Takes the answer: pdf.js speaks on the worker's own channel as well. */
  port: MessagePort;
  maxPages: number;
  maxCharacters: number;
}

export type PdfAnswer = { text: string; pages: number } | { trouble: string };

// pdf.js starts a worker for its parser unless it finds it here.
Object.assign(globalThis, { pdfjsWorker: pdfWorker });

async function read({ bytes, maxPages, maxCharacters }: PdfRequest): Promise<PdfAnswer> {
  const loading = getDocument({
    data: new Uint8Array(bytes),
    disableFontFace: true,
    isEvalSupported: false,
    useWorkerFetch: false,
    useSystemFonts: false,
    enableXfa: false,
    stopAtErrors: false,
    verbosity: 0,
  });
  try {
    const file = await loading.promise;
    if (file.numPages > maxPages)
      return { trouble: `has ${file.numPages} pages; at most ${maxPages} can be read` };
    const pages: string[] = [];
    let length = 0;
    for (let number = 1; number <= file.numPages; number += 1) {
      const page = await file.getPage(number);
      const { items } = await page.getTextContent();
      const text = linesOf(items.flatMap((item): PlacedText[] => ('str' in item ? [item] : [])));
      page.cleanup();
      length += text.length;
      if (length > maxCharacters)
        return { trouble: `has more than ${maxCharacters.toLocaleString('en')} characters of text` };
      pages.push(text);
    }
    return { text: pages.join('\n\n').trim(), pages: file.numPages };
  } finally {
    await loading.destroy();
  }
}

function reasonOf(error: unknown): string {
  const name = (error as { name?: string } | null)?.name;
  if (name === 'PasswordException') return 'is locked with a password';
  if (name === 'InvalidPDFException') return 'is not a PDF file that can be read';
  return `could not be read: ${error instanceof Error ? error.message : String(error)}`;
}

globalThis.addEventListener('message', async ({ data }: MessageEvent<PdfRequest>) => {
  if (!(data.bytes instanceof ArrayBuffer)) return;
  const answer = await read(data).catch((error): PdfAnswer => ({ trouble: reasonOf(error) }));
  data.port.postMessage(answer);
});
