/**
 * Where the nodes of the radix tree stand. Left to right run the tokens of a prefix: a node begins where its parent
 * ends and is as wide as it has tokens. Its first child goes on in the same row; each further child opens a row below.
 *
 *     ▇▇▇▇▇▇▇▇▇▇ ▇▇▇▇▇ ▇▇▇▇
 *              │      └ ▇▇
 *              └ ▇▇▇▇▇▇▇
 */
import type { TreeNode } from '../api/stats';

export interface TreeBox {
  node: TreeNode;
  x: number;
  width: number;
  row: number;
  /** Tokens from the root to the end of the node. */
  end: number;
  /** The box that this one continues from a row above; null in the same row, or at the root. */
  branchesFrom: TreeBox | null;
}

export interface TreeLayout {
  boxes: TreeBox[];
  rows: number;
  /** Pixels for a token; several boxes are wider than that, so that they can be seen. */
  scale: number;
}

const kGapPx = 3;
const kLeastBoxPx = 4;
/** Halvings of the search for the scale: more than a pixel needs. */
const kScaleSteps = 30;

/** `nodes` in any order; a node whose parent is missing stands at the root. */
export function layOutTree(nodes: readonly TreeNode[], width: number): TreeLayout {
  const known = new Set(nodes.map(({ id }) => id));
  const children = new Map<number, TreeNode[]>();
  const roots: TreeNode[] = [];
  for (const node of nodes) {
    if (!known.has(node.parent) || node.parent === node.id) roots.push(node);
    else children.set(node.parent, [...(children.get(node.parent) ?? []), node]);
  }
  const byAge = (a: TreeNode, b: TreeNode) => a.id - b.id;
  roots.sort(byAge);
  for (const list of children.values()) list.sort(byAge);

  const scale = largestScale(roots, children, width);
  const boxes: TreeBox[] = [];
  let rows = 0;
  // A stack, not recursion: a prefix may be split into any number of nodes. Children are pushed last first.
  const open: { node: TreeNode; parent: TreeBox | null; isFirst: boolean }[] = [];
  const push = (list: TreeNode[], parent: TreeBox | null) => {
    for (let i = list.length - 1; i >= 0; i -= 1)
      open.push({ node: list[i] as TreeNode, parent, isFirst: i === 0 });
  };
  push(roots, null);
  for (let next = open.pop(); next; next = open.pop()) {
    const { node, parent, isFirst } = next;
    const goesOn = isFirst && parent !== null;
    if (!goesOn) rows += 1;
    const box: TreeBox = {
      node,
      x: parent ? parent.x + parent.width + kGapPx : 0,
      width: boxWidth(node, scale),
      row: goesOn ? parent.row : rows - 1,
      end: (parent?.end ?? 0) + node.tokens,
      branchesFrom: goesOn ? null : parent,
    };
    boxes.push(box);
    push(children.get(node.id) ?? [], box);
  }
  return { boxes, rows, scale };
}

/** The root itself has no tokens and takes no room. */
function boxWidth(node: TreeNode, scale: number): number {
  return node.tokens === 0 ? 0 : Math.max(kLeastBoxPx, node.tokens * scale);
}

/** The largest scale at which the longest path fits. */
function largestScale(roots: TreeNode[], children: Map<number, TreeNode[]>, width: number): number {
  const longest = (scale: number): number => {
    let most = 0;
    const open = roots.map((node) => ({ node, x: 0 }));
    for (let next = open.pop(); next; next = open.pop()) {
      const end = next.x + boxWidth(next.node, scale);
      most = Math.max(most, end);
      for (const node of children.get(next.node.id) ?? []) open.push({ node, x: end + kGapPx });
    }
    return most;
  };
  let low = 0;
  let high = width;
  for (let i = 0; i < kScaleSteps; i += 1) {
    const middle = (low + high) / 2;
    if (longest(middle) <= width) low = middle;
    else high = middle;
  }
  return low;
}
