/**
 * Conversations of which the server has a copy. This browser's own is the one that is shown and changed; what changes
 * is sent a little later. Two browsers that change one conversation merge their turns, as two tabs do.
 */
import { computed, effect, signal } from '@preact/signals';
import { Unreachable } from '../api/errors';
import {
  deleteKept,
  fetchKept,
  keepsConversations,
  listKept,
  putKept,
  type KeptEntry,
} from '../api/kept_conversations';
import { keptValue } from '../storage/kept_value';
import { closed, hasOpenReply, merged, newId, type Conversation } from './conversation';
import { readConversation } from './conversation_json';
import { conversations, keep, open } from './conversation_store';

/** What this browser knows of a copy, by the id of its own conversation. */
interface Copy {
  /** On the server. A conversation that comes from there has another one here: the one here may have been deleted. */
  id: string;
  /** Empty: the server does not have it yet. */
  version: string;
  /** `changed` of the conversation that was sent or received then. */
  changed: number;
}

/** For `changed` of a copy that the conversation here differs from. */
const kUnsent = 0;
const kSendDelayMs = 1000;
/** Another browser may write between reading and writing; it will not do so for ever. */
const kMostTries = 5;
/** As the server wants ids. */
const kId = /^[A-Za-z0-9_-]{1,64}$/;

const copies = keptValue<Record<string, Copy>>('baleen.server_copies', readCopies);

export function readCopies(stored: unknown): Record<string, Copy> {
  if (typeof stored !== 'object' || stored === null) return {};
  const isCopy = ([, copy]: [string, unknown]) => {
    const { id, version, changed } = (copy ?? {}) as Record<string, unknown>;
    return typeof id === 'string' && typeof version === 'string' && typeof changed === 'number';
  };
  return Object.fromEntries(Object.entries(stored).filter(isCopy)) as Record<string, Copy>;
}

/** Whether the server keeps conversations. */
export const serverKeeps = signal(false);
/** Why the last exchange did not succeed; null when it did. */
export const serverTrouble = signal<string | null>(null);
const listed = signal<KeptEntry[]>([]);

/** Those that this browser does not have. */
export const onServerAlone = computed<KeptEntry[]>(() => {
  const here = new Set(conversations.value.map(({ id }) => copies.value[id]?.id));
  return listed.value.filter(({ id }) => !here.has(id));
});

export const hasCopy = (id: string): boolean => serverKeeps.value && copies.value[id] !== undefined;

function note(id: string, copy: Copy | null): void {
  const { [id]: _, ...others } = copies.value;
  copies.value = copy === null ? others : { ...others, [id]: copy };
}

/** One exchange after the other, so that no two of this tab cross. */
let last: Promise<unknown> = Promise.resolve();
function inTurn(exchange: () => Promise<void>): Promise<void> {
  const done = last.then(async () => {
    try {
      await exchange();
      serverTrouble.value = null;
    } catch (error) {
      // A server that is away is said in the banner; what was not sent is sent when the page looks again.
      if (!(error instanceof Unreachable)) serverTrouble.value = (error as Error).message;
    }
  });
  last = done;
  return done;
}

async function refresh(): Promise<void> {
  listed.value = await listKept();
}

/** Sends what this browser has, joined with what others sent meanwhile. */
async function send(id: string): Promise<void> {
  for (let tries = 0; tries < kMostTries; tries += 1) {
    const mine = conversations.value.find((one) => one.id === id);
    const copy = copies.value[id];
    if (!mine || !copy || hasOpenReply(mine)) return;
    const text = JSON.stringify({ ...closed(mine), id: copy.id });
    const sent = await putKept(copy.id, text, copy.version === '' ? null : copy.version);
    if (sent !== null) {
      note(id, { ...copy, version: sent, changed: mine.changed });
      return;
    }
    const theirs = await fetchKept(copy.id);
    if (theirs === null) {
      note(id, null); // Deleted on the server: what is here stays.
      return;
    }
    const now = conversations.value.find((one) => one.id === id) ?? mine;
    keep(merged(now, { ...readConversation(theirs.value, Date.now()), id }));
    note(id, { ...copy, version: theirs.version, changed: kUnsent });
  }
}

/** Takes over what another browser sent since. */
async function receive(entry: KeptEntry): Promise<void> {
  const mine = conversations.value.find(({ id }) => copies.value[id]?.id === entry.id);
  const copy = mine && copies.value[mine.id];
  if (!copy || copy.version === entry.version || hasOpenReply(mine)) return;
  const theirs = await fetchKept(entry.id);
  if (theirs === null) return;
  const next = merged(mine, { ...readConversation(theirs.value, Date.now()), id: mine.id });
  const hadAll = mine.changed === copy.changed;
  keep(next);
  note(mine.id, { ...copy, version: theirs.version, changed: hadAll ? next.changed : kUnsent });
}

/** Has the server keep a copy from now on. */
export function keepOnServer({ id }: Conversation): Promise<void> {
  return inTurn(async () => {
    note(id, { id: kId.test(id) ? id : newId(Date.now()), version: '', changed: kUnsent });
    try {
      await send(id);
    } catch (error) {
      note(id, null);
      throw error;
    }
    await refresh();
  });
}

/** Deletes the copy of a conversation; the conversation itself stays here. */
export function removeCopy(id: string): Promise<void> {
  return inTurn(async () => {
    await deleteKept(copies.value[id]?.id ?? id);
    note(id, null);
    await refresh();
  });
}

/** Deletes a conversation that the server alone has. */
export function deleteOnServer(serverId: string): Promise<void> {
  return inTurn(async () => {
    await deleteKept(serverId);
    await refresh();
  });
}

/** Brings a conversation of the server's here and shows it. */
export function openFromServer(serverId: string): Promise<void> {
  return inTurn(async () => {
    const kept = await fetchKept(serverId);
    if (kept === null) return refresh();
    const id = newId(Date.now());
    const conversation = { ...readConversation(kept.value, Date.now()), id };
    note(id, { id: serverId, version: kept.version, changed: conversation.changed });
    open(conversation);
  });
}

/** Asks the server what it has, and brings both sides together. */
export function syncWithServer(): Promise<void> {
  return inTurn(async () => {
    serverKeeps.value = await keepsConversations();
    if (!serverKeeps.value) return;
    await refresh();
    for (const entry of listed.value) await receive(entry);
    for (const id of unsent()) await send(id);
  });
}

function unsent(): string[] {
  return conversations.value
    .filter(
      (one) => copies.value[one.id] && copies.value[one.id]?.changed !== one.changed && !hasOpenReply(one),
    )
    .map(({ id }) => id);
}

/** From now on: sends what changes, and looks whenever the page is shown again. */
export function watchServerCopies(): void {
  let timer: number | undefined;
  effect(() => {
    if (!serverKeeps.value || unsent().length === 0) return;
    timer ??= window.setTimeout(() => {
      timer = undefined;
      void inTurn(async () => {
        for (const id of unsent()) await send(id);
        await refresh();
      });
    }, kSendDelayMs);
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void syncWithServer();
  });
}
