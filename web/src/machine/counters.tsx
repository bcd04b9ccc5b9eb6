import type { VNode } from 'preact';
import type { Stats } from '../api/stats';
import { count } from './units';

/** The plain counters, since the start. */
export function Counters({ stats: { scheduler, http } }: { stats: Stats }): VNode {
  const requests: [string, number][] = [
    ['submitted', scheduler.submitted],
    ['finished', scheduler.finished],
    ['cancelled', scheduler.cancelled],
    ['failed', scheduler.failed],
    ['refused', scheduler.refused],
    ['preemptions', scheduler.preemptions],
  ];
  const connections: [string, number][] = [
    ['open', http.connections],
    ['accepted', http.accepted],
    ['requests', http.requests],
    ['rejected', http.rejected],
    ['timed out', http.timed_out],
    ['dropped, too slow', http.dropped_slow],
  ];
  return (
    <div class="machine-halves">
      <CounterList title="Requests" counters={requests} />
      <CounterList title="Connections" counters={connections} />
    </div>
  );
}

function CounterList({ title, counters }: { title: string; counters: [string, number][] }): VNode {
  return (
    <section class="section" aria-label={title}>
      <h3>{title}</h3>
      <dl class="counters">
        {counters.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{count(value)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
