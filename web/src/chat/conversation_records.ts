/**
 * The conversations in the browser's storage, one record each, so that two tabs never write what the other one did.
 * The storage has no transactions: before a record is written it is compared with what this tab last saw of it.
 */
import { merged, type Conversation } from './conversation';
import { readConversation } from './conversation_json';

export const kRecordPrefix = 'baleen.conversation.';
/** The single record of all conversations that older versions of this page kept. */
export const kOldRecord = 'baleen.conversations';

/** The part of `Storage` that is used. */
export type RecordStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>;

/** Where the browser's is closed: empty, and every write fails. */
export const kNoStorage: RecordStorage = {
  length: 0,
  key: () => null,
  getItem: () => null,
  setItem: () => {
    throw new Error('This browser keeps nothing for this page.');
  },
  removeItem: () => {},
};

export class ConversationRecords {
  /** The text of each record as this tab last read or wrote it. */
  private seen = new Map<string, string>();
  /** What this tab wrote, to write only what changed. */
  private written = new Map<string, Conversation>();
  /** Deleted here or in another tab: never written again. */
  private deleted = new Set<string>();

  constructor(
    private readonly storage: RecordStorage,
    private readonly now: () => number = Date.now,
  ) {}

  /** All records, after bringing over those of older versions. Records that are not readable stay where they are. */
  readAll(): Conversation[] {
    this.migrate();
    const keys = Array.from({ length: this.storage.length }, (_, index) => this.storage.key(index) ?? '');
    return keys
      .filter((key) => key.startsWith(kRecordPrefix))
      .map((key) => this.read(key.slice(kRecordPrefix.length), this.storage.getItem(key)))
      .filter((conversation) => conversation !== null);
  }

  /**
   * Writes `conversation` unless the record has it already; what another tab wrote since is merged. Returns what the
   * record holds now, or null when the conversation was deleted meanwhile. Throws when the storage is full or closed.
   */
  write(conversation: Conversation): Conversation | null {
    const { id } = conversation;
    if (this.deleted.has(id)) return null;
    if (this.written.get(id) === conversation) return conversation;
    const text = this.storage.getItem(kRecordPrefix + id);
    const before = this.seen.get(id);
    if (text === null && before !== undefined) {
      this.forget(id);
      return null;
    }
    const theirs = text !== null && text !== before ? this.read(id, text) : null;
    const result = theirs ? merged(conversation, theirs) : conversation;
    const next = JSON.stringify(result);
    this.storage.setItem(kRecordPrefix + id, next);
    this.seen.set(id, next);
    this.written.set(id, result);
    return result;
  }

  remove(id: string): void {
    this.forget(id);
    this.storage.removeItem(kRecordPrefix + id);
  }

  /**
   * What another tab did to a record: its new text, or null for a deletion. `mine` is what this tab shows of it.
   * Returns what to show from now on; null: nothing.
   */
  takeOver(id: string, text: string | null, mine: Conversation | undefined): Conversation | null {
    if (text === null || this.deleted.has(id)) {
      // Also when this tab wrote the record again before it heard of the deletion.
      this.remove(id);
      return null;
    }
    const isUnsaved = mine !== undefined && this.written.get(id) !== mine;
    const theirs = this.read(id, text);
    if (!theirs) return mine ?? null;
    return isUnsaved ? merged(mine, theirs) : theirs;
  }

  private read(id: string, text: string | null): Conversation | null {
    if (text === null) return null;
    try {
      const conversation = { ...readConversation(JSON.parse(text), this.now()), id };
      this.seen.set(id, text);
      this.written.set(id, conversation);
      return conversation;
    } catch {
      return null;
    }
  }

  private forget(id: string): void {
    this.deleted.add(id);
    this.seen.delete(id);
    this.written.delete(id);
  }

  /** The old record goes when all that it held is written; on a full storage it stays for the next time. */
  private migrate(): void {
    const text = this.storage.getItem(kOldRecord);
    if (text === null) return;
    try {
      const list: unknown = JSON.parse(text);
      if (!Array.isArray(list)) return;
      for (const item of list) {
        const conversation = readConversation(item, this.now());
        const key = kRecordPrefix + conversation.id;
        if (conversation.turns.length === 0 || this.storage.getItem(key) !== null) continue;
        this.storage.setItem(key, JSON.stringify(conversation));
      }
      this.storage.removeItem(kOldRecord);
    } catch {
      // Unreadable or no room: the old record is the only copy, so it stays.
    }
  }
}
