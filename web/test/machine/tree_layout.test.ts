import { expect, test } from 'vitest';
import type { TreeNode } from '../../src/api/stats';
import { foldTree, kMostRows, type ShownNode } from '../../src/machine/tree_folding';
import { layOutTree, neighbour, type TreeLayout } from '../../src/machine/tree_layout';

function node(id: number, parent: number, tokens: number): TreeNode {
  return { id, parent, tokens, tombstone: false, full_lock: 0, window_lock: 0, last_access: 0 };
}

/** Trees of `size` nodes, the same every time. */
const kShapes: Record<string, (size: number) => TreeNode[]> = {
  random(size) {
    let state = 1;
    const draw = (below: number) => {
      state = (state * 48271) % 2147483647;
      return state % below;
    };
    return Array.from({ length: size }, (_, i) =>
      node(i, i === 0 ? -1 : draw(i + 1) - 1, 256 * (1 + draw(20))),
    );
  },
  star: (size) => Array.from({ length: size }, (_, i) => node(i, i === 0 ? -1 : 0, i === 0 ? 0 : 256)),
  flat: (size) => Array.from({ length: size }, (_, i) => node(i, -1, 128 + i)),
  chain: (size) => Array.from({ length: size }, (_, i) => node(i, i - 1, 256)),
  comb: (size) => Array.from({ length: size }, (_, i) => node(i, i % 2 === 0 ? i - 2 : i - 1, 64)),
  binary: (size) => Array.from({ length: size }, (_, i) => node(i, i === 0 ? -1 : (i - 1) >> 1, 100)),
  'one long, many short': (size) =>
    Array.from({ length: size }, (_, i) => node(i, i === 0 ? -1 : 0, i === 1 ? 500_000 : 256)),
};
const kSizes = [1, 2, 3, 10, 163, 512, 2000];
const kCases = Object.keys(kShapes).flatMap((shape) => kSizes.map((size) => [shape, size] as const));

const lay = (nodes: readonly TreeNode[], width: number, opened?: Map<number, number>): TreeLayout =>
  layOutTree(foldTree(nodes, opened), width);

/** Sums over what is drawn and what is folded. */
function total(shown: ShownNode): { nodes: number; tokens: number } {
  const sum = { nodes: shown.fold?.nodes ?? 0, tokens: shown.fold?.tokens ?? 0 };
  for (const child of shown.children) {
    const below = total(child);
    sum.nodes += 1 + below.nodes;
    sum.tokens += child.node.tokens + below.tokens;
  }
  return sum;
}

test.each(kCases)('%s of %i nodes: bounded, inside, nothing on each other, nothing lost', (shape, size) => {
  const nodes = kShapes[shape]?.(size) ?? [];
  const folded = foldTree(nodes);
  expect(total(folded)).toEqual({ nodes: size, tokens: nodes.reduce((sum, { tokens }) => sum + tokens, 0) });

  const { boxes, rows, width } = layOutTree(folded, 300);
  expect(rows).toBeLessThanOrEqual(kMostRows);
  expect(width).toBeLessThanOrEqual(300.01);
  expect(new Set(boxes.map(({ key }) => key)).size).toBe(boxes.length);
  const ends = new Array<number>(rows).fill(0);
  for (const box of [...boxes].sort((a, b) => a.x - b.x)) {
    expect(box.x).toBeGreaterThanOrEqual(ends[box.row] as number);
    ends[box.row] = box.x + box.width;
    if (box.node.tokens > 0 || box.fold) expect(box.width).toBeGreaterThanOrEqual(6);
  }
});

test('the branches with the most tokens are the ones that are shown', () => {
  const { children, fold } = foldTree(kShapes.flat?.(163) ?? []);
  expect(children.map(({ node: { id } }) => id)).toEqual(
    Array.from({ length: kMostRows - 1 }, (_, i) => 164 - kMostRows + i),
  );
  expect(fold).toMatchObject({ branches: 164 - kMostRows, nodes: 164 - kMostRows });
});

test('a fold that is opened again and again ends with everything on the page', () => {
  const nodes = kShapes.random?.(200) ?? [];
  const opened = new Map<number, number>();
  for (let round = 0; round < 200; round += 1) {
    const folds = lay(nodes, 900, opened).boxes.filter(({ fold }) => fold);
    if (folds.length === 0) break;
    for (const { node: of } of folds) opened.set(of.id, (opened.get(of.id) ?? 0) + 12);
  }
  const shown = lay(nodes, 900, opened).boxes.map(({ node: { id } }) => id);
  expect(shown.sort((a, b) => a - b)).toEqual(nodes.map(({ id }) => id));
});

test('what is locked stays counted when it is folded', () => {
  const nodes = kShapes.flat?.(100) ?? [];
  (nodes[0] as TreeNode).full_lock = 2;
  expect(foldTree(nodes).fold?.locked).toBe(1);
});

test('the first child goes on in the row, the others open rows below', () => {
  const { boxes, rows } = lay([node(1, -1, 512), node(2, 1, 256), node(3, 1, 256), node(4, -1, 256)], 600);
  expect(rows).toBe(3);
  expect(boxes.map(({ node: { id }, row }) => [id, row])).toEqual([
    [1, 0],
    [2, 0],
    [3, 1],
    [4, 2],
  ]);
  expect(boxes.map(({ branches, parent }) => (branches ? parent?.node.id : null))).toEqual([
    null,
    null,
    1,
    null,
  ]);
  expect(boxes[1]?.x).toBe(boxes[2]?.x);
  expect(boxes.map(({ end }) => end)).toEqual([512, 768, 768, 256]);
});

test('widths follow tokens, and the longest path just fits', () => {
  const { boxes, scale } = lay([node(1, -1, 1000), node(2, 1, 3000)], 803);
  expect(scale).toBeCloseTo(0.2, 3);
  expect(boxes.map(({ width }) => Math.round(width))).toEqual([200, 600]);
});

test('the order of the nodes does not matter', () => {
  const nodes = kShapes.random?.(60) ?? [];
  expect(lay([...nodes].reverse(), 500)).toEqual(lay(nodes, 500));
});

test('an empty tree, no space, a missing parent, and a node that follows itself', () => {
  expect(lay([], 1000)).toMatchObject({ boxes: [], rows: 0 });
  expect(lay(kShapes.random?.(5) ?? [], 0).scale).toBeLessThan(1e-6);
  expect(lay([node(3, 9, 10), node(4, 4, 10)], 100).rows).toBe(2);
});

test('arrows reach every box that is drawn', () => {
  const layout = lay(kShapes.random?.(300) ?? [], 900);
  const drawn = layout.boxes.filter(({ width }) => width > 0);
  const reached = new Set<string>();
  const open = drawn.slice(0, 1);
  for (let box = open.pop(); box; box = open.pop()) {
    if (reached.has(box.key)) continue;
    reached.add(box.key);
    for (const key of ['ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowLeft', 'End', 'Home'])
      open.push(neighbour(layout, box, key));
  }
  expect(reached.size).toBe(drawn.length);
  const first = drawn[0];
  if (first) expect(neighbour(layout, first, 'ArrowUp')).toBe(first);
});
