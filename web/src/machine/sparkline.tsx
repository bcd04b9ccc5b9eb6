import type { VNode } from 'preact';
import { kMostSamples } from './history';
import { compact } from './units';
import { useWidth } from './use_width';

const kHeight = 40;
const kMarginPx = 2;

/** The last minute; values fill the width from the right. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }): VNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const most = Math.max(1, ...values);
  const x = (index: number) => width - ((values.length - 1 - index) * width) / (kMostSamples - 1);
  const y = (value: number) => kHeight - kMarginPx - (Math.max(0, value) / most) * (kHeight - 2 * kMarginPx);
  const line = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
  return (
    <div class="sparkline" ref={ref}>
      <svg width={width} height={kHeight} role="img" aria-label={`${label}: highest ${compact(most)}`}>
        {values.length > 1 && (
          <>
            <polygon points={`${x(0).toFixed(1)},${kHeight} ${line} ${width},${kHeight}`} />
            <polyline points={line} />
          </>
        )}
      </svg>
    </div>
  );
}
