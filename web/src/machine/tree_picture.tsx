import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { TreeNode } from '../api/stats';
import { layOutTree, type TreeBox } from './tree_layout';
import { compact, count } from './units';
import { useWidth } from './use_width';

/** Rows grow thinner as they grow many. */
function rowHeight(rows: number): number {
  if (rows <= 24) return 20;
  return rows <= 60 ? 13 : 8;
}

const kMarginPx = 2;
const kTicks = 5;
const kAxisHeight = 18;

/** The prefixes in the cache, longest to the right; grey where the window rows are gone. */
export function TreePicture({ nodes }: { nodes: readonly TreeNode[] }): VNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [pointed, setPointed] = useState<number | null>(null);
  const layout = useMemo(() => layOutTree(nodes, Math.max(0, width - 2 * kMarginPx)), [nodes, width]);
  const newest = useMemo(() => nodes.reduce((most, node) => Math.max(most, node.last_access), 0), [nodes]);
  const height = rowHeight(layout.rows);
  const box = layout.boxes.find(({ node }) => node.id === pointed) ?? null;
  return (
    <div class="tree">
      <div class="tree-scroller" ref={ref}>
        {nodes.length === 0 ? (
          <p class="nothing">Empty. A prefix stays here when a sequence of a page or more has ended.</p>
        ) : (
          <svg
            width={width}
            height={layout.rows * height + kAxisHeight}
            role="img"
            aria-label={`Radix tree of ${nodes.length} nodes, ${nodes.filter(({ tombstone }) => tombstone).length} of them tombstones`}
            onPointerOver={(event) => setPointed(idOf(event.target))}
            onPointerLeave={() => setPointed(null)}
          >
            <g transform={`translate(${kMarginPx} 0)`}>
              {layout.boxes.map((item) => (
                <Node key={item.node.id} box={item} height={height} />
              ))}
              <Axis scale={layout.scale} width={width - 2 * kMarginPx} y={layout.rows * height} />
            </g>
          </svg>
        )}
      </div>
      <div class="tree-foot">
        <ul class="legend" aria-hidden="true">
          <li class="of-live">live</li>
          <li class="of-tombstone">tombstone: window rows evicted</li>
          <li class="of-locked">locked by a running sequence</li>
        </ul>
        <p class="tree-pointed" aria-live="polite">
          {box && describe(box, newest)}
        </p>
      </div>
    </div>
  );
}

const kIdAttribute = 'data-node';

function idOf(target: EventTarget | null): number | null {
  const id = target instanceof Element ? target.getAttribute(kIdAttribute) : null;
  return id === null ? null : Number(id);
}

function describe({ node, end }: TreeBox, newest: number): string {
  const parts = [`node ${node.id}`, `${count(node.tokens)} tokens, to position ${count(end)}`];
  const age = newest - node.last_access;
  parts.push(age === 0 ? 'used last' : `${count(age)} uses ago`);
  if (node.tombstone) parts.push('tombstone');
  if (node.full_lock > 0) parts.push(`locks: ${node.full_lock} full, ${node.window_lock} window`);
  return parts.join(' · ');
}

function Node({ box, height }: { box: TreeBox; height: number }): VNode {
  const { node, x, width, row, branchesFrom } = box;
  const inset = height > 10 ? 3 : 1;
  const y = row * height + inset;
  const middle = y + (height - 2 * inset) / 2;
  const kinds = ['node', node.tombstone ? 'tombstone' : 'live', node.full_lock > 0 ? 'locked' : ''];
  const stem = branchesFrom && branchesFrom.x + branchesFrom.width - 1;
  return (
    <>
      {branchesFrom && stem !== null && (
        <path class="branch" d={`M${stem} ${branchesFrom.row * height + height - inset}V${middle}H${x}`} />
      )}
      {width > 0 && (
        <rect
          class={kinds.join(' ')}
          x={x}
          y={y}
          width={width}
          height={height - 2 * inset}
          rx={height > 10 ? 2 : 1}
          {...{ [kIdAttribute]: node.id }}
        />
      )}
    </>
  );
}

/** Positions in tokens. */
function Axis({ scale, width, y }: { scale: number; width: number; y: number }): VNode | null {
  if (scale <= 0) return null;
  const step = roundStep(width / scale / kTicks);
  const ticks = Array.from({ length: Math.floor(width / scale / step) + 1 }, (_, index) => index * step);
  return (
    <g class="axis">
      {ticks.map((tokens) => {
        const x = tokens * scale;
        const anchor = tokens === 0 ? 'start' : x > width - 24 ? 'end' : 'middle';
        return (
          <text key={tokens} x={x} y={y + kAxisHeight - 4} text-anchor={anchor}>
            {tokens === 0 ? '0 tokens' : compact(tokens)}
          </text>
        );
      })}
    </g>
  );
}

/** 1, 2 or 5 times a power of ten. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(step, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= step) ?? power;
}
