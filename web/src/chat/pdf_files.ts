/** The text of PDF files, read by a worker that is loaded when the first one is attached. */
import type { PdfAnswer, PdfRequest } from '../pdf/pdf_reader';
import type { TextFile } from './conversation';

/** Scans are large and hold no text. */
const kMostBytes = 64 << 20;
const kMostPages = 3000;
const kMostCharacters = 2_000_000;
/** A file may make its reader calculate for ever. */
const kPatienceMs = 180_000;

const kReader = import.meta.env.DEV ? '/src/pdf/pdf_reader.ts' : '/pdf_reader.js';

/** By its first bytes: the name may say anything. */
export async function isPdf(file: File): Promise<boolean> {
  const start = await file
    .slice(0, 5)
    .text()
    .catch(() => '');
  return start === '%PDF-';
}

/** The text of the file, or a sentence that says why there is none. */
export async function readPdf(file: File): Promise<TextFile | string> {
  if (file.size > kMostBytes)
    return `${file.name} has ${file.size.toLocaleString('en')} bytes; PDF files up to ${kMostBytes.toLocaleString('en')} can be read.`;
  const answer = await ask(await file.arrayBuffer());
  if ('trouble' in answer) return `${file.name} ${answer.trouble}.`;
  if (answer.text === '') return `${file.name} holds no text: its pages may be pictures.`;
  return { name: file.name, text: answer.text };
}

/** A worker for each file, so that what one file does to its reader ends with it. */
function ask(bytes: ArrayBuffer): Promise<PdfAnswer> {
  const worker = new Worker(kReader, { type: 'module', name: 'PDF reader' });
  const { port1: answers, port2: port } = new MessageChannel();
  const answered = new Promise<PdfAnswer>((resolve) => {
    answers.onmessage = ({ data }: MessageEvent<PdfAnswer>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      resolve({ trouble: 'could not be read: its reader did not start' });
    };
    window.setTimeout(() => resolve({ trouble: 'could not be read: it takes too long' }), kPatienceMs);
    const request: PdfRequest = { bytes, port, maxPages: kMostPages, maxCharacters: kMostCharacters };
    worker.postMessage(request, [bytes, port]);
  });
  return answered.finally(() => worker.terminate());
}
