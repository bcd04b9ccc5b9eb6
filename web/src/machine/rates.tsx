import type { VNode } from 'preact';
import type { SchedulerStats } from '../api/stats';
import { draftsNote } from './drafts_note';
import type { Sample } from './history';
import { Sparkline } from './sparkline';
import { compact, count, duration, percent } from './units';

interface RatesProps {
  samples: readonly Sample[];
  scheduler: SchedulerStats;
  sequences: number;
}

/** What the machine does right now. */
export function Rates({ samples, scheduler, sequences }: RatesProps): VNode {
  const last = samples.at(-1);
  const step = last?.stepSeconds ?? null;
  return (
    <section class="rates" aria-label="Now">
      <div class="rate rate-wide">
        <h3>Reply tokens per second</h3>
        <p class="rate-value">{compact(last?.replyRate ?? 0)}</p>
        <Sparkline
          points={samples.map(({ at, replyRate: value }) => ({ at, value }))}
          label="Reply tokens per second, last ten minutes"
        />
      </div>
      <div class="rate rate-wide">
        <h3>Prompt tokens per second</h3>
        <p class="rate-value">{compact(last?.promptRate ?? 0)}</p>
        <Sparkline
          points={samples.map(({ at, promptRate: value }) => ({ at, value }))}
          label="Prompt tokens per second, last ten minutes"
        />
      </div>
      <Figure title="Running" value={count(scheduler.running)} note={`of ${count(sequences)} at most`} />
      <Figure title="Waiting" value={count(scheduler.waiting)} note="in the queue" />
      <Figure
        title="Step"
        value={step === null ? '–' : duration(step)}
        note={`${count(scheduler.steps)} so far`}
      />
      <Figure
        title="From the cache"
        value={percent(scheduler.cached_tokens, scheduler.prompt_tokens)}
        note={`of ${compact(scheduler.prompt_tokens)} prompt tokens`}
      />
      <Figure
        title="Drafts accepted"
        value={
          scheduler.drafted_tokens > 0 ? percent(scheduler.accepted_tokens, scheduler.drafted_tokens) : '–'
        }
        note={draftsNote(scheduler)}
      />
    </section>
  );
}

function Figure({ title, value, note }: { title: string; value: string; note: string }): VNode {
  return (
    <div class="rate">
      <h3>{title}</h3>
      <p class="rate-value">{value}</p>
      <p class="rate-note">{note}</p>
    </div>
  );
}
