import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Refused, Unreachable } from '../api/errors';
import { fetchStats } from '../api/server';
import type { Stats } from '../api/stats';
import { reportLost } from '../api/connection';
import { Counters } from './counters';
import { ExpertLoad } from './expert_load';
import { RateHistory, type Sample } from './history';
import { Operations } from './operations';
import { DiskTier, Pools } from './pools';
import { balanceNote, RankBalance } from './rank_balance';
import { Rates } from './rates';
import { TreePicture } from './tree_picture';
import { compact, count, duration } from './units';

const kPeriodMs = 1000;
/** After a longer pause, such as one of a hidden page, the server tells what happened in between. */
const kPauseMs = 3000;

interface Look {
  stats: Stats;
  samples: readonly Sample[];
}

/** Looks at the server every second while the page can be seen. */
function useLooks(): { look: Look | null; failure: string | null } {
  const [look, setLook] = useState<Look | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    const history = new RateHistory();
    let isGone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let lookedMs = -Infinity;
    const poll = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      try {
        const stats = await fetchStats(performance.now() - lookedMs > kPauseMs);
        if (isGone) return;
        lookedMs = performance.now();
        history.add(stats);
        setLook({ stats, samples: history.samples });
        setFailure(null);
      } catch (error) {
        if (isGone) return;
        if (error instanceof Unreachable) reportLost();
        if (error instanceof Refused) setFailure(error.message);
      }
      clearTimeout(timer);
      timer = setTimeout(() => void poll(), kPeriodMs);
    };
    const onVisibility = () => void poll();
    document.addEventListener('visibilitychange', onVisibility);
    void poll();
    return () => {
      isGone = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisibility);
    };
  }, []);
  return { look, failure };
}

export function MachineView(): VNode {
  const { look, failure } = useLooks();
  return (
    <main class="machine" tabIndex={0} aria-label="Machine">
      {failure !== null && <p class="failure">{failure}</p>}
      {look && <Machine {...look} />}
    </main>
  );
}

function Machine({ stats, samples }: Look): VNode {
  const { model, scheduler } = stats;
  const blocks = stats.expert_load.filter((row) => row.length > 0).length;
  return (
    <div class="machine-page">
      <header class="machine-title">
        <h2>{model.name}</h2>
        <p>
          {model.layers} layers, {model.experts} experts, vocabulary of {count(model.vocab_size)}, context of{' '}
          {count(model.context_tokens)} tokens, up for {duration(stats.uptime_seconds)}
          {stats.ranks.count > 1 && `; on ${stats.ranks.plan}`}
        </p>
      </header>
      <Rates samples={samples} scheduler={scheduler} sequences={model.max_sequences} />
      <Section title="Memory" note="by pool: in use by running sequences, cached for later ones, free">
        <Pools pools={stats.pools} />
        {stats.disk && <DiskTier disk={stats.disk} />}
      </Section>
      <Section
        title="Prefix tree"
        note={`${count(stats.tree.length)} nodes, ${compact(stats.tree.reduce((sum, { tokens }) => sum + tokens, 0))} tokens`}
      >
        <TreePicture nodes={stats.tree} />
      </Section>
      <div class="machine-halves">
        <Section
          title="Experts"
          note={blocks > 0 ? 'tokens routed since the start, a row for each layer' : undefined}
        >
          <ExpertLoad load={stats.expert_load} />
        </Section>
        <Section title="Operations" note="time since the start">
          <Operations operations={stats.operations} />
        </Section>
      </div>
      {stats.expert_balance && (
        <Section
          title="Ranks"
          note={stats.expert_balance.evaluations > 0 ? balanceNote(stats.expert_balance) : undefined}
        >
          <RankBalance balance={stats.expert_balance} />
        </Section>
      )}
      <Counters stats={stats} />
    </div>
  );
}

function Section(props: { title: string; note?: string | undefined; children: ComponentChildren }): VNode {
  return (
    <section class="section" aria-label={props.title}>
      <h3>
        {props.title}
        {props.note && <small>{props.note}</small>}
      </h3>
      {props.children}
    </section>
  );
}
