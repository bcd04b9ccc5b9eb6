import { newId, type Conversation } from './conversation';
import { Malformed, readConversation } from './conversation_json';
import { conversations, open } from './conversation_store';

/** More than the browser's storage holds. */
const kMostBytes = 10 << 20;
/** A file may hold many conversations. */
const kMostConversations = 10_000;

/** The conversations in the text of an exported file. Throws Malformed. */
export function readExport(text: string, now: number): Conversation[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Malformed(`It is not JSON: ${(error as Error).message}`);
  }
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0 || list.length > kMostConversations)
    throw new Malformed(`It holds ${list.length} conversations; expected 1 to ${kMostConversations}.`);
  // A new identity: an imported conversation never takes the place of one that is here.
  return list.map((item) => ({ ...readConversation(item, now), id: newId(now) }));
}

/** Adds the conversations of the file and shows the first. Returns why it could not, or null. */
export async function importFile(file: File): Promise<string | null> {
  if (file.size > kMostBytes) return `${file.name} is larger than 10 MB.`;
  try {
    const [first, ...others] = readExport(await file.text(), Date.now());
    conversations.value = [...others, ...conversations.value];
    if (first) open(first);
    return null;
  } catch (error) {
    if (error instanceof Malformed) return `${file.name} is no conversation. ${error.message}`;
    return `${file.name} could not be read.`;
  }
}
