/// How many tokens each running request gets in one step. Pure arithmetic: no engine, no pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace baleen {

/// What one running request could take.
struct StepDemand {
  std::int64_t start = 0;  ///< tokens that its sequence has seen
  /// Tokens it has not: 1 while it decodes, more while its prompt goes in; 0 when a step under way ends it.
  std::int64_t remaining = 1;
  std::int64_t most_drafts = 0;
  bool wants_all_rows = false;  ///< logits of each of its tokens
};

struct StepShare {
  std::int64_t num_tokens = 0;  ///< how many of the remaining ones are in this step
  std::int64_t num_drafts = 0;  ///< fed after them
};

struct StepBudget {
  std::int64_t max_batch_tokens = 0;
  std::int64_t max_logit_rows = 0;
  std::int64_t prefill_share_tokens = 0;  ///< what all prompts have together, while anyone decodes
  std::int64_t least_draft_room = 0;      ///< tokens that a sequence with drafts has room for at least
};

/// Every request that decodes gets its token. Prompts split their share evenly; what a short one leaves goes
/// to the longer ones. Where it costs no further step, a prompt's chunk ends with a page. Drafts split what
/// is left, after a logit row for everyone.
///
/// `demands` come by falling importance, at most max_batch_tokens and max_logit_rows of them. When there are
/// more prompts than tokens for them, the most important ones get one each.
[[nodiscard]] std::vector<StepShare> plan_step(std::span<const StepDemand> demands, const StepBudget& budget);

/// Splits `budget` into grants of at most wants[i] so that the smallest grant that is less than its want is
/// as large as can be. A budget below the number of wants goes to the first ones, one each.
[[nodiscard]] std::vector<std::int64_t> split_evenly(std::int64_t budget,
                                                     std::span<const std::int64_t> wants);

}  // namespace baleen
