/**
 * Where the shown nodes of the radix tree stand. Left to right run the tokens of a prefix: a node begins where its
 * parent ends and is as wide as it has tokens. Its first child goes on in the same row; each further child, and what is
 * folded, opens a row below.
 *
 *     ▇▇▇▇▇▇▇▇▇▇ ▇▇▇▇▇ ▇▇▇▇
 *              │      └ ▇▇
 *              ├ ▇▇▇▇▇▇▇
 *              └ [+]   120 more branches
 */
import type { TreeNode } from '../api/stats';
import type { Fold, ShownNode } from './tree_folding';

export interface TreeBox {
  /** A node, or what is folded below it. */
  node: TreeNode;
  fold: Fold | null;
  /** Unique among the boxes, and the same at every look. */
  key: string;
  x: number;
  width: number;
  row: number;
  /** Tokens from the root to the end of the box. */
  end: number;
  /** The box that this one follows; null at the root. */
  parent: TreeBox | null;
  /** Whether it opens a row below its parent's. */
  branches: boolean;
}

export interface TreeLayout {
  boxes: TreeBox[];
  rows: number;
  /** Pixels for a token; several boxes are wider than that, so that they can be seen. */
  scale: number;
  /** Of the widest path: more than was given when so many nodes were opened that they do not fit. */
  width: number;
}

const kGapPx = 3;
const kLeastBoxPx = 6;
const kFoldPx = 26;
/** Halvings of the search for the scale: more than a pixel needs. */
const kScaleSteps = 30;

/** `root` stands for all and is not drawn itself. */
export function layOutTree(root: ShownNode, width: number): TreeLayout {
  let low = 0;
  let high = Math.max(0, width);
  for (let i = 0; i < kScaleSteps; i += 1) {
    const middle = (low + high) / 2;
    if (place(root, middle).width <= width) low = middle;
    else high = middle;
  }
  return { ...place(root, low), scale: low };
}

interface Pending {
  shown: ShownNode;
  /** The fold of `shown`, not `shown` itself. */
  isFold: boolean;
  parent: TreeBox | null;
  isFirst: boolean;
}

function place(root: ShownNode, scale: number): Omit<TreeLayout, 'scale'> {
  const boxes: TreeBox[] = [];
  let rows = 0;
  let width = 0;
  const open: Pending[] = [];
  // A stack, not recursion; what comes first is pushed last.
  const push = (shown: ShownNode, parent: TreeBox | null) => {
    if (shown.fold) open.push({ shown, isFold: true, parent, isFirst: shown.children.length === 0 });
    for (let i = shown.children.length - 1; i >= 0; i -= 1)
      open.push({ shown: shown.children[i] as ShownNode, isFold: false, parent, isFirst: i === 0 });
  };
  push(root, null);
  for (let next = open.pop(); next; next = open.pop()) {
    const { shown, isFold, parent, isFirst } = next;
    const goesOn = isFirst && parent !== null;
    if (!goesOn) rows += 1;
    const box: TreeBox = {
      node: shown.node,
      fold: isFold ? shown.fold : null,
      key: isFold ? `fold ${shown.node.id}` : `node ${shown.node.id}`,
      x: parent ? parent.x + parent.width + kGapPx : 0,
      width: isFold ? kFoldPx : boxWidth(shown.node, scale),
      row: goesOn ? parent.row : rows - 1,
      end: (parent?.end ?? 0) + (isFold ? 0 : shown.node.tokens),
      parent,
      branches: !goesOn && parent !== null,
    };
    width = Math.max(width, box.x + box.width);
    boxes.push(box);
    if (!isFold) push(shown, box);
  }
  return { boxes, rows, width };
}

/** The root of the server's tree has no tokens and takes no space. */
function boxWidth(node: TreeNode, scale: number): number {
  return node.tokens === 0 ? 0 : Math.max(kLeastBoxPx, node.tokens * scale);
}

/** The box that an arrow key leads to from `box`; the same one at the end. */
export function neighbour(layout: TreeLayout, box: TreeBox, key: string): TreeBox {
  const drawn = layout.boxes.filter(({ width }) => width > 0);
  const inRow = (row: number) => drawn.filter((other) => other.row === row);
  const index = inRow(box.row).indexOf(box);
  const nextRow = (rows: number[]) => rows.map((row) => inRow(row)[0]).find((other) => other !== undefined);
  const steps: Record<string, () => TreeBox | undefined> = {
    ArrowLeft: () =>
      inRow(box.row)[index - 1] ?? (box.parent && box.parent.width > 0 ? box.parent : undefined),
    ArrowRight: () => inRow(box.row)[index + 1],
    ArrowDown: () => nextRow(span(box.row + 1, layout.rows)),
    ArrowUp: () => nextRow(span(0, box.row).reverse()),
    Home: () => drawn[0],
    End: () => nextRow(span(0, layout.rows).reverse()),
  };
  return steps[key]?.() ?? box;
}

const span = (begin: number, end: number): number[] =>
  Array.from({ length: Math.max(0, end - begin) }, (_, index) => begin + index);
