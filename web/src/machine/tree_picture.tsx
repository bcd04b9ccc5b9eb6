import type { VNode } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TreeNode } from '../api/stats';
import { foldTree, kMoreBranches } from './tree_folding';
import { layOutTree, neighbour, type TreeBox, type TreeLayout } from './tree_layout';
import { compact, count } from './units';
import { useWidth } from './use_width';

const kRowPx = 22;
const kInsetPx = 4;
const kMarginPx = 3;
/** Right of a row's last box, on screens that have it to spare. */
const kLabelPx = 170;
const kLabelFromPx = 560;
const kTicks = 5;
const kAxisPx = 18;

/** The prefixes in the cache, longest to the right; grey where the window rows are gone. */
export function TreePicture({ nodes }: { nodes: readonly TreeNode[] }): VNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [opened, setOpened] = useState<ReadonlyMap<number, number>>(new Map());
  const [active, setActive] = useState<string | null>(null);
  const labelPx = width >= kLabelFromPx ? kLabelPx : 0;
  const usable = Math.max(0, width - 2 * kMarginPx - labelPx);
  const layout = useMemo(() => layOutTree(foldTree(nodes, opened), usable), [nodes, opened, usable]);
  const newest = useMemo(() => nodes.reduce((most, node) => Math.max(most, node.last_access), 0), [nodes]);
  const box = layout.boxes.find(({ key }) => key === active) ?? null;

  const openFold = ({ node, fold }: TreeBox) => {
    if (fold) setOpened(new Map(opened).set(node.id, (opened.get(node.id) ?? 0) + kMoreBranches));
  };
  return (
    <div class="tree">
      <div class="tree-scroller" ref={ref}>
        {nodes.length === 0 ? (
          <p class="nothing">Empty. A prefix stays here when a sequence of a page or more has ended.</p>
        ) : (
          <Drawing
            layout={layout}
            width={Math.max(usable, layout.width) + 2 * kMarginPx + labelPx}
            hasLabels={labelPx > 0}
            label={`Radix tree of ${nodes.length} nodes, ${nodes.filter(({ tombstone }) => tombstone).length} of them tombstones`}
            active={active}
            newest={newest}
            onActive={setActive}
            onOpen={openFold}
          />
        )}
      </div>
      <div class="tree-foot">
        <ul class="legend" aria-hidden="true">
          <li class="of-live">live</li>
          <li class="of-tombstone">tombstone: window rows evicted</li>
          <li class="of-locked">locked by a running sequence</li>
        </ul>
        {opened.size > 0 && (
          <button type="button" class="quiet" onClick={() => setOpened(new Map())}>
            Fold again
          </button>
        )}
        <p class="tree-pointed" aria-live="polite">
          {box && describe(box, newest)}
        </p>
      </div>
    </div>
  );
}

interface DrawingProps {
  layout: TreeLayout;
  width: number;
  hasLabels: boolean;
  label: string;
  active: string | null;
  newest: number;
  onActive: (key: string | null) => void;
  onOpen: (box: TreeBox) => void;
}

const kKeyAttribute = 'data-key';

function Drawing(props: DrawingProps): VNode {
  const { layout, width, hasLabels, label, active, newest, onActive, onOpen } = props;
  const svg = useRef<SVGSVGElement>(null);
  const drawn = layout.boxes.filter((box) => box.width > 0);
  const current = drawn.find(({ key }) => key === active) ?? drawn[0];
  const lastOfRow = new Map(drawn.map((box) => [box.row, box]));
  const boxOf = (target: EventTarget | null): TreeBox | undefined => {
    const key = target instanceof Element ? target.getAttribute(kKeyAttribute) : null;
    return drawn.find((box) => box.key === key);
  };

  // One box of the tree is in the order of Tab; arrows move which one, and the focus with it.
  const followsFocus = useRef(false);
  useLayoutEffect(() => {
    if (!followsFocus.current || !current) return;
    followsFocus.current = false;
    svg.current?.querySelector<SVGElement>(`[${kKeyAttribute}="${CSS.escape(current.key)}"]`)?.focus();
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const box = boxOf(event.target);
    if (!box) return;
    if ((event.key === 'Enter' || event.key === ' ') && box.fold) {
      followsFocus.current = true;
      onOpen(box);
    } else {
      const next = neighbour(layout, box, event.key);
      if (next === box) return;
      followsFocus.current = true;
      onActive(next.key);
    }
    event.preventDefault();
  };

  // The listeners stand outside the drawing: an SVG element that listens for focus would take it itself.
  return (
    <div
      onPointerOver={(event) => onActive(boxOf(event.target)?.key ?? null)}
      onPointerLeave={() => onActive(null)}
      onFocusIn={(event) => onActive(boxOf(event.target)?.key ?? null)}
      onClick={(event) => {
        const box = boxOf(event.target);
        if (box) onOpen(box);
      }}
      onKeyDown={onKeyDown}
    >
      <svg ref={svg} width={width} height={layout.rows * kRowPx + kAxisPx} role="tree" aria-label={label}>
        <g transform={`translate(${kMarginPx} 0)`}>
          {layout.boxes.map((box) => (
            <Branch key={box.key} box={box} />
          ))}
          {drawn.map((box) => (
            <Box key={box.key} box={box} isCurrent={box === current} words={describe(box, newest)} />
          ))}
          {hasLabels &&
            [...lastOfRow.values()].map((box) => <Label key={box.row} box={box} newest={newest} />)}
          <Axis scale={layout.scale} width={layout.width} y={layout.rows * kRowPx} />
        </g>
      </svg>
    </div>
  );
}

const foldWords = ({ branches, nodes, tokens }: NonNullable<TreeBox['fold']>): string => {
  const more = `${count(branches)} more ${branches === 1 ? 'branch' : 'branches'}`;
  return nodes > branches
    ? `${more}, ${count(nodes)} nodes, ${compact(tokens)} tokens`
    : `${more}, ${compact(tokens)} tokens`;
};

const age = ({ last_access }: TreeNode, newest: number): string =>
  newest === last_access ? 'used last' : `${count(newest - last_access)} uses ago`;

function describe({ node, fold, end }: TreeBox, newest: number): string {
  if (fold) {
    const locked = fold.locked > 0 ? `, ${count(fold.locked)} locked` : '';
    return `${foldWords(fold)}${locked}: press Enter or click to see more of them`;
  }
  const parts = [`node ${node.id}`, `${count(node.tokens)} tokens, to position ${count(end)}`];
  parts.push(age(node, newest));
  if (node.tombstone) parts.push('tombstone');
  if (node.full_lock > 0) parts.push(`locks: ${node.full_lock} full, ${node.window_lock} window`);
  return parts.join(' · ');
}

const middleOf = (row: number) => row * kRowPx + kRowPx / 2;

/** The line from the end of a node down to a row below. */
function Branch({ box: { parent, branches, row, x } }: { box: TreeBox }): VNode | null {
  if (!branches || !parent) return null;
  const stem = Math.max(0, parent.x + parent.width - 1);
  return <path class="branch" d={`M${stem} ${(parent.row + 1) * kRowPx - kInsetPx}V${middleOf(row)}H${x}`} />;
}

function Box({ box, isCurrent, words }: { box: TreeBox; isCurrent: boolean; words: string }): VNode {
  const { node, fold, x, width, row } = box;
  const kinds = fold
    ? ['node', 'fold', fold.locked > 0 ? 'locked' : '']
    : ['node', node.tombstone ? 'tombstone' : 'live', node.full_lock > 0 ? 'locked' : ''];
  return (
    <>
      <rect
        class={kinds.join(' ')}
        x={x}
        y={row * kRowPx + kInsetPx}
        width={width}
        height={kRowPx - 2 * kInsetPx}
        rx={2}
        role="treeitem"
        tabindex={isCurrent ? 0 : -1}
        aria-label={words}
        aria-expanded={fold ? false : undefined}
        {...{ [kKeyAttribute]: box.key }}
      />
      {fold && (
        <text
          class="fold-sign"
          x={x + width / 2}
          y={middleOf(row) + 4}
          text-anchor="middle"
          aria-hidden="true"
        >
          {`+${compact(fold.branches)}`}
        </text>
      )}
    </>
  );
}

/** What the last box of a row says, where there is space beside it. */
function Label({ box, newest }: { box: TreeBox; newest: number }): VNode {
  const words = box.fold ? foldWords(box.fold) : `${compact(box.end)} tokens, ${age(box.node, newest)}`;
  return (
    <text class="row-label" x={box.x + box.width + 8} y={middleOf(box.row) + 4} aria-hidden="true">
      {words}
    </text>
  );
}

/** Positions in tokens. */
function Axis({ scale, width, y }: { scale: number; width: number; y: number }): VNode | null {
  if (scale <= 0) return null;
  const step = roundStep(width / scale / kTicks);
  const ticks = Array.from({ length: Math.floor(width / scale / step) + 1 }, (_, index) => index * step);
  return (
    <g class="axis" aria-hidden="true">
      {ticks.map((tokens) => {
        const x = tokens * scale;
        const anchor = tokens === 0 ? 'start' : x > width - 24 ? 'end' : 'middle';
        return (
          <text key={tokens} x={x} y={y + kAxisPx - 4} text-anchor={anchor}>
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
