import type { SchedulerStats } from '../api/stats';
import { compact, percent } from './units';

type DraftCounts = Pick<
  SchedulerStats,
  'drafted_tokens' | 'accepted_tokens' | 'draft_chains' | 'drafts_by_depth'
>;

/** How far chains of drafts are right, and what they bring. */
export function draftsNote(scheduler: DraftCounts): string {
  if (scheduler.drafted_tokens === 0) return 'none were made';
  const tokens = 1 + scheduler.accepted_tokens / scheduler.draft_chains;
  const positions = scheduler.drafts_by_depth
    .filter(({ drafted }) => drafted > 0)
    .map(({ drafted, accepted }) => percent(accepted, drafted));
  return `of ${compact(scheduler.drafted_tokens)}; by position ${positions.join(', ')}; ${tokens.toFixed(2)} tokens a step`;
}
