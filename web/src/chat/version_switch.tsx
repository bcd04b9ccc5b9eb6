import type { VNode } from 'preact';
import { IconButton } from '../elements/icons';
import { isBusy, showVersion } from './chat_session';
import type { Turn } from './conversation';

/** Where a turn stands among those that follow the same one. Plain values, so that they compare by value. */
export interface Versions {
  /** From 1. */
  position: number;
  count: number;
  previous: string | null;
  next: string | null;
}

export function versionsOf(turn: Turn, siblings: readonly Turn[]): Versions {
  const index = siblings.indexOf(turn);
  return {
    position: index + 1,
    count: siblings.length,
    previous: siblings[index - 1]?.id ?? null,
    next: siblings[index + 1]?.id ?? null,
  };
}

/** "< 2 / 3 >": goes from one version of a message or reply to another. */
export function VersionSwitch({ versions, of }: { versions: Versions; of: string }): VNode | null {
  const { position, count, previous, next } = versions;
  if (count < 2) return null;
  const go = (id: string | null) => id !== null && showVersion(id);
  return (
    <div class="versions" role="group" aria-label={`Versions of this ${of}`}>
      <IconButton
        icon="left"
        label="Previous version"
        disabled={previous === null || isBusy.value}
        onClick={() => go(previous)}
      />
      <span aria-label={`Version ${position} of ${count}`}>
        {position} / {count}
      </span>
      <IconButton
        icon="fold"
        label="Next version"
        disabled={next === null || isBusy.value}
        onClick={() => go(next)}
      />
    </div>
  );
}
