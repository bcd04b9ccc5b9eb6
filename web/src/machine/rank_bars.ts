import type { LayerBalance } from '../api/stats';

/** A rank's load as a bar that stands on the ground of its picture, in pixels. */
export interface RankBar {
  x: number;
  y: number;
  width: number;
  height: number;
}

const kLeastPx = 1;

/** Bars of one side of a layer. The tallest load of both sides fills the height, so that they can be compared. */
export function rankBars(
  layer: LayerBalance,
  side: keyof LayerBalance,
  width: number,
  height: number,
): RankBar[] {
  const loads = layer[side];
  const most = Math.max(...layer.before, ...layer.after);
  if (loads.length === 0 || most <= 0) return [];
  const step = width / loads.length;
  const gap = step > 4 ? 1 : 0;
  return loads.map((load, rank) => {
    const bar = Math.max(load > 0 ? kLeastPx : 0, (height * load) / most);
    return { x: rank * step, y: height - bar, width: step - gap, height: bar };
  });
}

/** Mean over largest load; null without tokens. */
export function balancedness(loads: readonly number[]): number | null {
  const most = Math.max(0, ...loads);
  return most > 0 ? loads.reduce((sum, load) => sum + load, 0) / loads.length / most : null;
}
