/** What GET /stats answers. Counters count since the server started. */
export interface Stats {
  model: {
    name: string;
    layers: number;
    vocab_size: number;
    context_tokens: number;
    experts: number;
    max_sequences: number;
  };
  uptime_seconds: number;
  scheduler: SchedulerStats;
  pools: Record<'pages' | 'window_pages' | 'state_slots', Pool>;
  tree: TreeNode[];
  /** Tokens by layer and expert; an empty row for a layer without counts. */
  expert_load: number[][];
  /** Only where experts change places while ranks serve. */
  expert_balance: ExpertBalance | null;
  operations: Operation[];
  disk: DiskStats | null;
  /** Ranks that run the model together; groups of them own sequences. */
  ranks: { count: number; groups: number; plan: string };
  /** Only when it was requested. */
  history?: CounterHistory;
  http: Record<'connections' | 'accepted' | 'requests' | 'rejected' | 'timed_out' | 'dropped_slow', number>;
}

/** Tokens of each rank in the latest window, with the expert maps of then and of now; empty before the first evaluation. */
export interface LayerBalance {
  before: number[];
  after: number[];
}

export interface ExpertBalance {
  steps: number;
  evaluations: number;
  rebalancings: number;
  failures: number;
  last_failure: string;
  moved_experts: number;
  moved_bytes: number;
  /** Mean over largest load of a layer's ranks, over layers that had tokens. */
  balancedness: Record<'before' | 'after', { mean: number; least: number }>;
  /** Main layers, then MTP blocks. */
  layers: LayerBalance[];
}

export interface SchedulerStats {
  waiting: number;
  running: number;
  submitted: number;
  finished: number;
  cancelled: number;
  failed: number;
  refused: number;
  prompt_tokens: number;
  cached_tokens: number;
  reply_tokens: number;
  drafted_tokens: number;
  accepted_tokens: number;
  /** Chains of drafts that steps checked. */
  draft_chains: number;
  /** By position in their chains; accepted: with all before them. */
  drafts_by_depth: readonly { drafted: number; accepted: number }[];
  steps: number;
  preemptions: number;
  step_seconds: number;
}

/** The counters of the last ten minutes, a row a second, oldest first. */
export interface CounterHistory {
  columns: string[];
  rows: number[][];
}

/** free + cached + in_use = total. */
export interface Pool {
  total: number;
  free: number;
  cached: number;
  in_use: number;
}

/** A node of the radix tree: a run of tokens, after those of its parent (-1: the root). */
export interface TreeNode {
  id: number;
  parent: number;
  tokens: number;
  tombstone: boolean;
  full_lock: number;
  window_lock: number;
  /** A counter that grows with every use of the tree. */
  last_access: number;
}

export interface Operation {
  name: string;
  calls: number;
  seconds: number;
  bytes: number;
  flops: number;
}

export type DiskStats = Record<
  | 'files'
  | 'bytes'
  | 'budget_bytes'
  | 'written_pages'
  | 'read_pages'
  | 'dropped_pages'
  | 'rejected_files'
  | 'evicted_files',
  number
>;
