#include "scheduler/job_step.h"

#include <algorithm>

namespace baleen {

JobStep::JobStep(Job& of, const StepShare& planned, std::int64_t start)
    : id(of.id),
      sequence(*of.sequence),
      share(planned),
      decodes(of.reply->num_tokens() + of.num_pending > 0 && planned.num_tokens == 1),
      wants_row(start + planned.num_tokens == of.num_tokens),
      scores_prompt(of.wants_all_rows),
      num_seen(start + planned.num_tokens) {
  const std::int64_t num_known = std::min(num_seen, std::ssize(of.tokens));
  for (std::int64_t i = start; i < num_known; ++i) fed.push_back(of.tokens[static_cast<std::size_t>(i)]);
  fed.resize(static_cast<std::size_t>(planned.num_tokens), kNoToken);
}

bool JobStep::let_engine_choose(const Job& job) {
  draws.clear();
  if (scores_prompt) return false;
  // What a step under way chooses is fed as it is.
  if (job.reply->may_force(job.num_pending)) return false;
  for (std::int64_t ahead = 0; ahead < num_rows(); ++ahead) {
    const auto draw = job.reply->draw_row(static_cast<std::uint64_t>(job.num_pending + ahead));
    if (!draw) {
      draws.clear();
      return false;
    }
    draws.push_back(*draw);
  }
  return true;
}

StepInput JobStep::input() const {
  const WantedLogits wanted = scores_prompt           ? WantedLogits::kAll
                              : !wants_row            ? WantedLogits::kNone
                              : drafts.tokens.empty() ? WantedLogits::kLast
                                                      : WantedLogits::kAll;
  return {.sequence = sequence, .tokens = fed, .wanted = wanted, .draws = draws, .wants_draft_logits = false};
}

StepInput JobStep::queued_input() const {
  return {.sequence = sequence,
          .tokens = fed,
          .wanted = wants_row ? WantedLogits::kLast : WantedLogits::kNone,
          .draws = draws,
          .wants_draft_logits = false,
          .num_drafts = num_drafts};
}

}  // namespace baleen
