import type { Stats } from '../api/stats';

/** What changed between two looks at the server, per second or per step. */
export interface Sample {
  /** Server time, in seconds since it started. */
  at: number;
  replyRate: number;
  promptRate: number;
  /** Mean length of a step; null when there was none. */
  stepSeconds: number | null;
}

/** A minute of looks. */
export const kMostSamples = 60;
/** Looks closer together than this say nothing about a rate. */
const kLeastSeconds = 0.05;

/** Looks at the counters, turned into rates by their differences. */
export class RateHistory {
  private last: Stats | null = null;
  private kept: Sample[] = [];

  get samples(): readonly Sample[] {
    return this.kept;
  }

  add(stats: Stats): void {
    const before = this.last;
    // Time or counters that run backwards belong to a server that was started anew.
    if (before === null || stats.uptime_seconds < before.uptime_seconds) {
      this.last = stats;
      this.kept = [];
      return;
    }
    const elapsed = stats.uptime_seconds - before.uptime_seconds;
    if (elapsed < kLeastSeconds) return;
    const now = stats.scheduler;
    const then = before.scheduler;
    const steps = now.steps - then.steps;
    this.kept = [
      ...this.kept.slice(1 - kMostSamples),
      {
        at: stats.uptime_seconds,
        replyRate: (now.reply_tokens - then.reply_tokens) / elapsed,
        // Tokens from the cache cost no step: they are not counted as work.
        promptRate:
          (now.prompt_tokens - now.cached_tokens - (then.prompt_tokens - then.cached_tokens)) / elapsed,
        stepSeconds: steps > 0 ? (now.step_seconds - then.step_seconds) / steps : null,
      },
    ];
    this.last = stats;
  }
}
