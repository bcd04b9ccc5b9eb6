import type { CounterHistory, Stats } from '../api/stats';

/** What changed between two looks at the server, per second or per step. */
export interface Sample {
  /** Server time, in seconds since it started. */
  at: number;
  replyRate: number;
  promptRate: number;
  /** Mean length of a step; null when there was none. */
  stepSeconds: number | null;
}

/** What is shown: ten minutes, as far as the server remembers. */
export const kWindowSeconds = 600;
/** Looks closer together than this say nothing about a rate. */
const kLeastSeconds = 0.05;

/** The counters that rates are made of. */
interface Counters {
  uptime_seconds: number;
  prompt_tokens: number;
  cached_tokens: number;
  reply_tokens: number;
  steps: number;
  step_seconds: number;
}

const kCounters = [
  'uptime_seconds',
  'prompt_tokens',
  'cached_tokens',
  'reply_tokens',
  'steps',
  'step_seconds',
] as const satisfies (keyof Counters)[];

/** Looks at the counters, turned into rates by their differences. */
export class RateHistory {
  private last: Counters | null = null;
  private kept: Sample[] = [];

  get samples(): readonly Sample[] {
    return this.kept;
  }

  /** A look; when it carries what the server remembers, that replaces what is here. */
  add(stats: Stats): void {
    if (stats.history) {
      this.last = null;
      for (const counters of readHistory(stats.history)) this.note(counters);
    }
    this.note({ ...stats.scheduler, uptime_seconds: stats.uptime_seconds });
  }

  private note(now: Counters): void {
    const before = this.last;
    // Time that runs backwards belongs to a server that was started anew.
    if (before === null || now.uptime_seconds < before.uptime_seconds) {
      this.last = now;
      this.kept = [];
      return;
    }
    const elapsed = now.uptime_seconds - before.uptime_seconds;
    if (elapsed < kLeastSeconds) return;
    const steps = now.steps - before.steps;
    // Tokens from the cache cost no step: they are not counted as work.
    const computed = now.prompt_tokens - now.cached_tokens - (before.prompt_tokens - before.cached_tokens);
    this.kept.push({
      at: now.uptime_seconds,
      replyRate: (now.reply_tokens - before.reply_tokens) / elapsed,
      promptRate: computed / elapsed,
      stepSeconds: steps > 0 ? (now.step_seconds - before.step_seconds) / steps : null,
    });
    this.kept = this.kept.filter(({ at }) => at > now.uptime_seconds - kWindowSeconds);
    this.last = now;
  }
}

/** Rows without one of the counters are left out. */
function readHistory({ columns, rows }: CounterHistory): Counters[] {
  const places = kCounters.map((name) => columns.indexOf(name));
  return rows
    .map((row) => Object.fromEntries(kCounters.map((name, index) => [name, row[places[index] ?? -1]])))
    .filter((counters) => kCounters.every((name) => typeof counters[name] === 'number'))
    .map((counters) => counters as unknown as Counters);
}
