import { expect, test } from 'vitest';
import type { TreeNode } from '../../src/api/stats';
import { layOutTree } from '../../src/machine/tree_layout';

function node(id: number, parent: number, tokens: number): TreeNode {
  return { id, parent, tokens, tombstone: false, full_lock: 0, window_lock: 0, last_access: 0 };
}

/** A tree of `size` nodes, the same every time. */
function someTree(size: number): TreeNode[] {
  let state = 1;
  const draw = (below: number) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  return Array.from({ length: size }, (_, i) =>
    node(i, i === 0 ? -1 : draw(i + 1) - 1, 256 * (1 + draw(20))),
  );
}

test('the first child goes on in the row, the others open rows below', () => {
  const { boxes, rows } = layOutTree(
    [node(1, -1, 512), node(2, 1, 256), node(3, 1, 256), node(4, -1, 256)],
    600,
  );
  expect(rows).toBe(3);
  expect(boxes.map(({ node: { id }, row }) => [id, row])).toEqual([
    [1, 0],
    [2, 0],
    [3, 1],
    [4, 2],
  ]);
  expect(boxes.map(({ branchesFrom }) => branchesFrom?.node.id ?? null)).toEqual([null, null, 1, null]);
  expect(boxes[1]?.x).toBe(boxes[2]?.x);
  expect(boxes.map(({ end }) => end)).toEqual([512, 768, 768, 256]);
});

test('widths follow tokens, and the longest path just fits', () => {
  const { boxes, scale } = layOutTree([node(1, -1, 1000), node(2, 1, 3000)], 803);
  expect(scale).toBeCloseTo(0.2, 3);
  expect(boxes.map(({ width }) => Math.round(width))).toEqual([200, 600]);
});

test('large trees: every node once, inside, and no two on each other', () => {
  const nodes = someTree(700);
  const { boxes, rows } = layOutTree(nodes, 900);
  expect(new Set(boxes.map(({ node: { id } }) => id)).size).toBe(nodes.length);
  const ends = new Array<number>(rows).fill(0);
  for (const { x, width, row } of [...boxes].sort((a, b) => a.x - b.x)) {
    expect(x).toBeGreaterThanOrEqual(ends[row] as number);
    expect(width).toBeGreaterThanOrEqual(4);
    ends[row] = x + width;
    expect(x + width).toBeLessThanOrEqual(900.01);
  }
});

test('the order of the nodes does not matter', () => {
  const nodes = someTree(60);
  expect(layOutTree([...nodes].reverse(), 500)).toEqual(layOutTree(nodes, 500));
});

test('a chain of thousands of nodes, an empty tree, and no room', () => {
  const chain = Array.from({ length: 5000 }, (_, i) => node(i, i - 1, 256));
  expect(layOutTree(chain, 1000).rows).toBe(1);
  expect(layOutTree([], 1000)).toMatchObject({ boxes: [], rows: 0 });
  expect(layOutTree(someTree(5), 0).scale).toBeLessThan(1e-6);
});

test('a root that is listed itself takes no room', () => {
  const { boxes } = layOutTree([node(0, -1, 0), node(1, 0, 256)], 500);
  expect(boxes.map(({ width }) => width > 0)).toEqual([false, true]);
});
