import type { VNode } from 'preact';
import type { ExpertBalance, LayerBalance } from '../api/stats';
import { balancedness, rankBars } from './rank_bars';
import { bytes, count, percent } from './units';

const kWidthPx = 56;
const kHeightPx = 14;

/** Tokens of each rank in the latest window, a row for each layer: with the experts where they were, and where they are now. */
export function RankBalance({ balance }: { balance: ExpertBalance }): VNode {
  if (balance.evaluations === 0) return <p class="nothing">The loads of the ranks were not evaluated yet.</p>;
  return (
    <>
      <ol class="rank-layers" aria-label="Loads of the ranks by layer, before and after">
        {balance.layers.map((layer, number) => (
          <LayerRow key={number} layer={layer} number={number} />
        ))}
      </ol>
      <p class="bar-note">
        {count(balance.moved_experts)} experts moved, {bytes(balance.moved_bytes)}
        {balance.failures > 0 && `; ${count(balance.failures)} failures, the latest: ${balance.last_failure}`}
      </p>
    </>
  );
}

export function balanceNote(balance: ExpertBalance): string {
  const { before, after } = balance.balancedness;
  const change = (from: number, to: number) => `${percent(from, 1)} to ${percent(to, 1)}`;
  return (
    `mean over largest load of ranks: ${change(before.mean, after.mean)} over layers, ` +
    `${change(before.least, after.least)} in the worst; ` +
    `maps changed after ${count(balance.rebalancings)} of ${count(balance.evaluations)} evaluations`
  );
}

function LayerRow({ layer, number }: { layer: LayerBalance; number: number }): VNode {
  const before = balancedness(layer.before);
  const after = balancedness(layer.after);
  return (
    <li class="rank-layer">
      <span class="bar-label">{number}</span>
      <Bars layer={layer} side="before" />
      <Bars layer={layer} side="after" />
      <span class="bar-figure">
        {before !== null && after !== null ? `${percent(before, 1)} to ${percent(after, 1)}` : 'no tokens'}
      </span>
    </li>
  );
}

function Bars({ layer, side }: { layer: LayerBalance; side: keyof LayerBalance }): VNode {
  const words = `${side}: ${layer[side].map(count).join(', ')} tokens`;
  return (
    <svg class={`rank-bars of-${side}`} width={kWidthPx} height={kHeightPx} role="img" aria-label={words}>
      <title>{words}</title>
      {rankBars(layer, side, kWidthPx, kHeightPx).map((bar, rank) => (
        <rect key={rank} {...bar} />
      ))}
    </svg>
  );
}
