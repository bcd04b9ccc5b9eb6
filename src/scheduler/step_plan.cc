#include "scheduler/step_plan.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "tensor/ragged_batch.h"

namespace baleen {
namespace {

std::int64_t num_steps(std::int64_t tokens, std::int64_t chunk) { return (tokens + chunk - 1) / chunk; }

/// `chunk`, or less so that it ends with a page: whole pages are what others can share. Only where the prompt
/// needs as many steps of `chunk` tokens as it would otherwise.
std::int64_t end_with_page(const StepDemand& prompt, std::int64_t chunk) {
  const std::int64_t shorter = chunk - (prompt.start + chunk) % kPageTokens;
  if (chunk == prompt.remaining || shorter <= 0) return chunk;
  const bool free =
      num_steps(prompt.remaining - shorter, chunk) == num_steps(prompt.remaining - chunk, chunk);
  return free ? shorter : chunk;
}

}  // namespace

std::vector<std::int64_t> split_evenly(std::int64_t budget, std::span<const std::int64_t> wants) {
  std::vector<std::int64_t> grants(wants.size());
  std::vector<std::size_t> order(wants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (budget < std::ssize(order)) order.resize(static_cast<std::size_t>(std::max<std::int64_t>(budget, 0)));
  // By rising want: whoever wants less than an even part leaves the rest to those after.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wants[a] < wants[b]; });
  std::int64_t sharers = std::ssize(order);
  for (const std::size_t i : order) {
    grants[i] = std::min(wants[i], budget / sharers--);
    budget -= grants[i];
  }
  return grants;
}

std::vector<StepShare> plan_step(std::span<const StepDemand> demands, const StepBudget& budget) {
  BALEEN_CHECK_LE(std::ssize(demands), std::min(budget.max_batch_tokens, budget.max_logit_rows));
  std::vector<StepShare> shares(demands.size());
  std::vector<std::size_t> prompts, drafters;
  std::vector<std::int64_t> prompt_wants, draft_wants;
  std::int64_t spare_tokens = budget.max_batch_tokens;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if (demands[i].remaining > 1) {
      prompts.push_back(i);
      prompt_wants.push_back(demands[i].remaining);
      continue;
    }
    if (demands[i].remaining == 0) continue;
    shares[i].num_tokens = 1;
    --spare_tokens;
    if (demands[i].most_drafts == 0) continue;
    drafters.push_back(i);
    draft_wants.push_back(demands[i].most_drafts);
  }

  const bool anyone_decodes = prompts.size() < demands.size();
  const std::int64_t prompt_tokens =
      anyone_decodes ? std::min(spare_tokens, budget.prefill_share_tokens) : spare_tokens;
  const auto chunks = split_evenly(prompt_tokens, prompt_wants);
  std::int64_t spare_rows = budget.max_logit_rows - std::ssize(demands);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (chunks[i] == 0) continue;
    const StepDemand& demand = demands[prompts[i]];
    const std::int64_t chunk = demand.wants_all_rows ? std::min(chunks[i], 1 + spare_rows) : chunks[i];
    shares[prompts[i]].num_tokens = end_with_page(demand, chunk);
    spare_tokens -= shares[prompts[i]].num_tokens;
    if (demand.wants_all_rows) spare_rows -= shares[prompts[i]].num_tokens - 1;
  }

  const auto drafts = split_evenly(std::min(spare_tokens, spare_rows), draft_wants);
  for (std::size_t i = 0; i < drafters.size(); ++i) shares[drafters[i]].num_drafts = drafts[i];
  return shares;
}

}  // namespace baleen
