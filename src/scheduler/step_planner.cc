#include "scheduler/step_planner.h"

#include <fmt/format.h>

#include <algorithm>

namespace baleen {

void StepPlanner::divide_step() {
  demands_.clear();
  parts_.clear();
  const std::span<Contender* const> running = lineup_.running();
  for (const Contender* contender : running) {
    const std::int64_t start = sequences_.length(*contender->sequence);
    demands_.push_back(
        {start, contender->num_tokens - start, contender->most_drafts, contender->wants_all_rows});
  }
  allot_drafts();
  const std::vector<StepShare> shares = plan_step(demands_, budget_);
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (shares[i].num_tokens > 0) parts_.push_back({.contender = running[i], .share = shares[i]});
  }
}

void StepPlanner::allot_drafts() {
  candidates_.clear();
  const std::span<Contender* const> running = lineup_.running();
  bool has_prompts = false;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (demands_[i].remaining == 1)
      candidates_.push_back({.record = &running[i]->draft_record, .most = demands_[i].most_drafts});
    has_prompts |= demands_[i].remaining > 1;
  }
  std::int64_t num_prompt_tokens = 0;
  if (has_prompts) {
    // Prompts get the same whatever drafts do.
    const std::vector<StepShare> shares = plan_step(demands_, budget_);
    for (std::size_t i = 0; i < shares.size(); ++i)
      num_prompt_tokens += demands_[i].remaining > 1 ? shares[i].num_tokens : 0;
  }
  decision_ = schedule_.allot(candidates_, num_prompt_tokens);
  auto candidate = candidates_.begin();
  for (StepDemand& demand : demands_) {
    if (demand.remaining == 1) demand.most_drafts = (candidate++)->num_drafts;
  }
}

std::span<const PlannedPart> StepPlanner::plan() {
  divide_step();
  // The most important first: whom it preempts comes later, and has then lost its sequence.
  std::size_t num_with_room = 0;
  for (PlannedPart& part : parts_) {
    if (part.contender->sequence && make_room(part)) parts_[num_with_room++] = part;
  }
  parts_.resize(num_with_room);
  return parts_;
}

std::span<const PlannedPart> StepPlanner::plan_ahead() {
  divide_step();
  if (!decision_.without_drafts) parts_.clear();
  for (const PlannedPart& part : parts_) {
    if (sequences_.reserve(*part.contender->sequence, part.share.num_tokens)) continue;
    parts_.clear();
    break;
  }
  return parts_;
}

bool StepPlanner::make_room(PlannedPart& part) {
  Contender& contender = *part.contender;
  StepShare& share = part.share;
  // No request is preempted for a draft.
  const std::int64_t room = std::max(share.num_tokens + share.num_drafts, budget_.least_draft_room);
  if (share.num_drafts > 0 && sequences_.reserve(*contender.sequence, room)) return true;
  share.num_drafts = 0;
  if (lineup_.reserve(contender, share.num_tokens)) return true;
  if (lineup_.num_running() > 1) {
    lineup_.preempt(contender);
    return false;
  }
  // A shorter chunk needs fewer window pages at once.
  const std::int64_t to_end_of_page = kPageTokens - sequences_.length(*contender.sequence) % kPageTokens;
  share.num_tokens = std::min(share.num_tokens, to_end_of_page);
  if (lineup_.reserve(contender, share.num_tokens)) return true;
  lineup_.refuse(contender,
                 fmt::format("the cache has no room for {} tokens, though the request has it to itself "
                             "({} pages of {} tokens); shorten the prompt or enlarge the cache",
                             contender.num_tokens, sequences_.cache_use().pages.total, kPageTokens));
  return false;
}

void StepPlanner::after_step(Contender& contender, std::int64_t num_seen) {
  // Once, at the prompt's end: every end that is shared is one whose window rows others then compete for.
  if (contender.prompt_was_cached || num_seen < contender.prompt_tokens) return;
  sequences_.share(*contender.sequence);
  contender.prompt_was_cached = true;
}

}  // namespace baleen
