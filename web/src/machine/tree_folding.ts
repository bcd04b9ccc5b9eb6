/**
 * Which nodes of the radix tree are shown. A busy server's tree has hundreds of branches, most of them short: those that
 * hold the most tokens are shown, in a bounded number of rows, and what is left out of a node is counted in its fold.
 */
import type { TreeNode } from '../api/stats';

/** What is not shown below a node. */
export interface Fold {
  /** Children of the node that are left out. */
  branches: number;
  /** With all that is below them. */
  nodes: number;
  tokens: number;
  /** How many of the nodes are locked by running sequences. */
  locked: number;
}

export interface ShownNode {
  node: TreeNode;
  /** In the order of their ids, so that the picture does not jump between looks. */
  children: ShownNode[];
  /** Null when all children are shown. */
  fold: Fold | null;
}

/** Stands above the nodes without a parent. */
export const kRootId = -1;
/** Before any fold is opened. */
export const kMostRows = 18;
/** Nodes in one path. */
export const kMostDepth = 16;
/** Branches that come with each opening of a fold. */
export const kMoreBranches = 12;

interface Entry {
  shown: ShownNode;
  parent: Entry | null;
  depth: number;
  /** Children, those with the most tokens below them first. */
  below: Entry[];
  weight: Fold;
  isShown: boolean;
}

/**
 * `nodes` in any order; one whose parent is missing stands at the root. `opened`: for a node (or kRootId), how many
 * further branches of it are shown. Quadratic in what is shown, linear otherwise.
 */
export function foldTree(
  nodes: readonly TreeNode[],
  opened: ReadonlyMap<number, number> = new Map(),
): ShownNode {
  const root = entriesOf(nodes);
  const all = topDown(root);
  for (const entry of [...all].reverse()) weigh(entry);
  showHeaviest(root);
  for (const entry of all) {
    if (!entry.isShown) continue;
    let more = opened.get(entry.shown.node.id) ?? 0;
    for (const child of entry.below) {
      if (child.isShown || more === 0) continue;
      child.isShown = true;
      more -= 1;
    }
  }
  for (const entry of all) if (entry.isShown) settle(entry);
  return root.shown;
}

function newEntry(node: TreeNode): Entry {
  const weight = { branches: 0, nodes: 1, tokens: node.tokens, locked: node.full_lock > 0 ? 1 : 0 };
  const shown = { node, children: [], fold: null };
  return { shown, parent: null, depth: 0, below: [], weight, isShown: false };
}

function entriesOf(nodes: readonly TreeNode[]): Entry {
  const root = newEntry({
    id: kRootId,
    parent: kRootId,
    tokens: 0,
    tombstone: false,
    full_lock: 0,
    window_lock: 0,
    last_access: 0,
  });
  root.isShown = true;
  const byId = new Map(nodes.map((node) => [node.id, newEntry(node)]));
  for (const entry of byId.values()) {
    const { node } = entry.shown;
    const parent = (node.parent === node.id ? undefined : byId.get(node.parent)) ?? root;
    entry.parent = parent;
    parent.below.push(entry);
  }
  return root;
}

/** All entries, parents first. A stack, not recursion: a prefix may be split into any number of nodes. */
function topDown(root: Entry): Entry[] {
  const ordered: Entry[] = [];
  const open = [root];
  for (let entry = open.pop(); entry; entry = open.pop()) {
    ordered.push(entry);
    for (const child of entry.below) {
      child.depth = entry.depth + 1;
      open.push(child);
    }
  }
  return ordered;
}

/** Adds up what is below; the children were weighed before. */
function weigh(entry: Entry): void {
  for (const { weight } of entry.below) {
    entry.weight.nodes += weight.nodes;
    entry.weight.tokens += weight.tokens;
    entry.weight.locked += weight.locked;
  }
  entry.below.sort((a, b) => b.weight.tokens - a.weight.tokens || a.shown.node.id - b.shown.node.id);
}

/**
 * The heaviest first, while there are rows. The first child of a node goes on in its row and costs none; a fold beside
 * shown children has a row of its own.
 */
function showHeaviest(root: Entry): void {
  let rows = root.below.length > 0 ? 1 : 0;
  const shownBelow = new Map<Entry | null, number>();
  const rowsFor = ({ parent }: Entry): number => {
    const hidden = (parent?.below.length ?? 0) - (shownBelow.get(parent) ?? 0);
    // The last one takes the row of the fold, or the rest of its parent's; others leave, or make, a row for the fold.
    return hidden > 1 ? 1 : 0;
  };
  const fits = (entry: Entry) => entry.depth <= kMostDepth && rows + rowsFor(entry) <= kMostRows;
  const candidates = [...root.below];
  for (;;) {
    const chosen = candidates.reduce<Entry | null>((best, entry) => {
      if (best && best.weight.tokens >= entry.weight.tokens) return best;
      return fits(entry) ? entry : best;
    }, null);
    if (!chosen) return;
    candidates.splice(candidates.indexOf(chosen), 1);
    rows += rowsFor(chosen);
    shownBelow.set(chosen.parent, (shownBelow.get(chosen.parent) ?? 0) + 1);
    chosen.isShown = true;
    candidates.push(...chosen.below);
  }
}

function settle(entry: Entry): void {
  const hidden = entry.below.filter(({ isShown }) => !isShown);
  entry.shown.children = entry.below
    .filter(({ isShown }) => isShown)
    .map(({ shown }) => shown)
    .sort((a, b) => a.node.id - b.node.id);
  if (hidden.length === 0) return;
  const sum = (of: (weight: Fold) => number) => hidden.reduce((total, { weight }) => total + of(weight), 0);
  entry.shown.fold = {
    branches: hidden.length,
    nodes: sum(({ nodes }) => nodes),
    tokens: sum(({ tokens }) => tokens),
    locked: sum(({ locked }) => locked),
  };
}
