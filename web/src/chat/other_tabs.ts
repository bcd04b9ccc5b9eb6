/**
 * Which replies stream in another tab of this browser. A tab that streams answers when it is asked; one that does not
 * answer has gone, and its reply is over. Timers of hidden tabs are slow, so only the asking tab uses one.
 */
const kChannel = 'baleen';
const kAskMs = 2000;
/** Silence that means the other tab is gone. */
export const kGoneMs = 6000;

interface Note {
  kind: 'who' | 'streams';
  id: string;
}

/** When each conversation that streams elsewhere was last heard of. */
export class Presence {
  private heardMs = new Map<string, number>();

  hear(id: string, nowMs: number): void {
    this.heardMs.set(id, nowMs);
  }

  /** `open`: the conversations that stream elsewhere, as far as is known. Returns those whose tab is gone. */
  gone(open: readonly string[], nowMs: number): string[] {
    for (const id of this.heardMs.keys()) if (!open.includes(id)) this.heardMs.delete(id);
    return open.filter((id) => {
      const heard = this.heardMs.get(id);
      if (heard === undefined) this.heardMs.set(id, nowMs);
      return heard !== undefined && nowMs - heard >= kGoneMs;
    });
  }
}

/** Asks and answers until the page goes. `onGone` is called for each conversation whose tab is gone. */
export function watchOtherTabs(
  streamsHere: (id: string) => boolean,
  openElsewhere: () => string[],
  onGone: (id: string) => void,
): void {
  const channel = new BroadcastChannel(kChannel);
  const presence = new Presence();
  channel.onmessage = ({ data }: MessageEvent<Note>) => {
    if (data.kind === 'streams') presence.hear(data.id, Date.now());
    else if (streamsHere(data.id)) channel.postMessage({ kind: 'streams', id: data.id } satisfies Note);
  };
  const ask = () => {
    const open = openElsewhere();
    for (const id of presence.gone(open, Date.now())) onGone(id);
    for (const id of open) channel.postMessage({ kind: 'who', id } satisfies Note);
  };
  window.setInterval(ask, kAskMs);
  ask();
}
