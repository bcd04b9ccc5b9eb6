/** What is written and not yet sent, by conversation: it is there again after another one was shown. */
import { signal } from '@preact/signals';
import type { TextFile } from './conversation';
import { readTextFile } from './text_files';

export interface Draft {
  text: string;
  files: TextFile[];
  /** Names of files that are being read. */
  reading: string[];
  /** Why a file was not taken; null when all were. */
  trouble: string | null;
}

const kEmpty: Draft = { text: '', files: [], reading: [], trouble: null };

const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

export const draftOf = (id: string): Draft => drafts.value.get(id) ?? kEmpty;

export function changeDraft(id: string, changes: Partial<Draft>): void {
  drafts.value = new Map(drafts.value).set(id, { ...draftOf(id), ...changes });
}

export function clearDraft(id: string): void {
  changeDraft(id, kEmpty);
}

/** Puts what is written in one conversation into another, after what is written there. */
export function moveDraft(from: string, to: string): void {
  const [moved, there] = [draftOf(from), draftOf(to)];
  changeDraft(to, {
    text: [there.text, moved.text].filter((text) => text !== '').join('\n\n'),
    files: [...there.files, ...moved.files],
  });
  clearDraft(from);
}

/** Adds the text of `files` to the draft, in their order; one that has none is named in `trouble`. */
export async function attach(id: string, files: Iterable<File>): Promise<void> {
  const all = [...files];
  const names = all.map(({ name }) => name);
  changeDraft(id, { reading: [...draftOf(id).reading, ...names], trouble: null });
  const read = await Promise.all(all.map(readTextFile));
  const troubles = read.filter((one) => typeof one === 'string');
  const taken = read.filter((one) => typeof one !== 'string');
  const reading = [...draftOf(id).reading];
  for (const name of names) if (reading.includes(name)) reading.splice(reading.indexOf(name), 1);
  changeDraft(id, {
    files: [...draftOf(id).files, ...taken],
    reading,
    trouble: troubles.length > 0 ? troubles.join(' ') : null,
  });
}
