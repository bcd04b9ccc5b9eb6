/** What is written and not yet sent, by conversation: it is there again after another one was shown. */
import { signal } from '@preact/signals';
import type { TextFile } from './conversation';
import { readTextFile } from './text_files';

export interface Draft {
  text: string;
  files: TextFile[];
  /** Why a file was not taken; null when all were. */
  trouble: string | null;
}

const kEmpty: Draft = { text: '', files: [], trouble: null };

const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

export const draftOf = (id: string): Draft => drafts.value.get(id) ?? kEmpty;

export function changeDraft(id: string, changes: Partial<Draft>): void {
  drafts.value = new Map(drafts.value).set(id, { ...draftOf(id), ...changes });
}

export function clearDraft(id: string): void {
  changeDraft(id, kEmpty);
}

/** Adds the text files among `files` to the draft. */
export async function attach(id: string, files: Iterable<File>): Promise<void> {
  const read = await Promise.all([...files].map(readTextFile));
  const troubles = read.filter((one) => typeof one === 'string');
  const taken = read.filter((one) => typeof one !== 'string');
  changeDraft(id, {
    files: [...draftOf(id).files, ...taken],
    trouble: troubles.length > 0 ? troubles.join(' ') : null,
  });
}
