import type { VNode } from 'preact';
import { kWindowSeconds } from './history';
import { compact } from './units';
import { useWidth } from './use_width';

const kHeight = 40;
const kMarginPx = 2;

export interface Point {
  /** In seconds. */
  at: number;
  value: number;
}

/** The last ten minutes; the newest value stands at the right edge. */
export function Sparkline({ points, label }: { points: readonly Point[]; label: string }): VNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const most = points.reduce((highest, { value }) => Math.max(highest, value), 1);
  const newest = points.at(-1)?.at ?? 0;
  const x = ({ at }: Point) => (width - ((newest - at) * width) / kWindowSeconds).toFixed(1);
  const y = ({ value }: Point) =>
    (kHeight - kMarginPx - (Math.max(0, value) / most) * (kHeight - 2 * kMarginPx)).toFixed(1);
  const line = points.map((point) => `${x(point)},${y(point)}`).join(' ');
  const first = points[0];
  return (
    <div class="sparkline" ref={ref}>
      <svg width={width} height={kHeight} role="img" aria-label={`${label}: highest ${compact(most)}`}>
        {first && points.length > 1 && (
          <>
            <polygon points={`${x(first)},${kHeight} ${line} ${width},${kHeight}`} />
            <polyline points={line} />
          </>
        )}
      </svg>
    </div>
  );
}
