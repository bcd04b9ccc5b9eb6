import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { theme } from '../style/theme';
import { cellAt, cellBeside, evenness, type HeatCell, type HeatGrid } from './heat_grid';
import { count, percent } from './units';
import { useWidth } from './use_width';

const kLabelPx = 26;
const kLeastRowPx = 6;
const kMostRowPx = 22;
const kMostHeightPx = 320;
/** Rows lower than a number are numbered now and then. */
const kLabelHeightPx = 11;
const kSparseLabels = 5;
/** The faintest a cell that was used is drawn. */
const kFaintest = 0.06;

/** How often each expert was chosen: rows are layers, columns experts; each row is as dark as its busiest is. */
export function ExpertLoad({ load }: { load: readonly number[][] }): VNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<HeatCell | null>(null);
  const columns = Math.max(0, ...load.map((row) => row.length));
  const rowPx = Math.max(
    kLeastRowPx,
    Math.min(kMostRowPx, Math.floor(kMostHeightPx / Math.max(1, load.length))),
  );
  const grid: HeatGrid = {
    left: kLabelPx,
    cell: columns > 0 ? Math.max(0, width - kLabelPx) / columns : 0,
    row: rowPx,
  };
  const colours = theme.value;

  useLayoutEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, load, grid, width, pointed);
  }, [load, width, colours, pointed]);

  if (columns === 0) return <p class="nothing">No tokens were routed yet.</p>;
  const row = pointed ? load[pointed.layer] : undefined;
  const tokens = pointed && row ? row[pointed.expert] : undefined;
  return (
    <div class="heat" ref={ref}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Load of ${columns} experts in ${load.length} layers; ${describeEvenness(load)}`}
        onPointerMove={(event) => setPointed(cellAt(grid, load, event.offsetX, event.offsetY))}
        onPointerLeave={() => setPointed(null)}
        tabIndex={0}
        onKeyDown={(event) => {
          const next = cellBeside(load, pointed, event.key);
          if (!next) return;
          event.preventDefault();
          setPointed(next);
        }}
        onBlur={() => setPointed(null)}
      />
      <p class="heat-pointed" aria-live="polite">
        {pointed && row && tokens !== undefined
          ? `layer ${pointed.layer}, expert ${pointed.expert}: ${count(tokens)} tokens, ` +
            `${percent(tokens, sum(row))} of the layer's`
          : describeEvenness(load)}
      </p>
    </div>
  );
}

const sum = (row: readonly number[]) => row.reduce((total, tokens) => total + tokens, 0);

function describeEvenness(load: readonly number[][]): string {
  const worst = evenness(load);
  if (worst === null) return 'No tokens were routed yet.';
  return `busiest: layer ${worst.layer}, expert ${worst.expert}, ${worst.ratio.toFixed(1)} times the mean`;
}

function draw(
  canvas: HTMLCanvasElement,
  load: readonly number[][],
  grid: HeatGrid,
  width: number,
  pointed: HeatCell | null,
): void {
  const height = load.length * grid.row;
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  if (!context) return;
  const style = getComputedStyle(canvas);
  const gap = grid.cell > 6 ? 1 : 0;
  context.scale(density, density);
  context.clearRect(0, 0, width, height);
  context.textBaseline = 'middle';
  context.font = `11px ${style.fontFamily}`;
  load.forEach((row, layer) => {
    const y = layer * grid.row;
    context.globalAlpha = 1;
    context.fillStyle = style.getPropertyValue('caret-color');
    if (grid.row >= kLabelHeightPx || layer % kSparseLabels === 0) {
      context.fillText(String(layer), 0, Math.max(kLabelHeightPx / 2, y + grid.row / 2));
    }
    context.fillStyle = style.color;
    const most = Math.max(1, ...row);
    row.forEach((tokens, expert) => {
      context.globalAlpha = tokens === 0 ? kFaintest / 2 : kFaintest + (1 - kFaintest) * (tokens / most);
      context.fillRect(grid.left + expert * grid.cell, y, grid.cell - gap, grid.row - 1);
    });
  });
  if (!pointed) return;
  context.globalAlpha = 1;
  context.strokeStyle = style.getPropertyValue('caret-color');
  context.strokeRect(
    grid.left + pointed.expert * grid.cell,
    pointed.layer * grid.row,
    Math.max(2, grid.cell - gap),
    grid.row - 1,
  );
}
