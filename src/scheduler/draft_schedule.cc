#include "scheduler/draft_schedule.h"

#include <algorithm>
#include <functional>

namespace baleen {
namespace {

void give_all(std::span<DraftCandidate> candidates, std::int64_t num_drafts) {
  for (DraftCandidate& candidate : candidates) candidate.num_drafts = std::min(num_drafts, candidate.most);
}

std::int64_t sum_of(std::span<const DraftCandidate> candidates) {
  std::int64_t sum = 0;
  for (const DraftCandidate& candidate : candidates) sum += candidate.num_drafts;
  return sum;
}

}  // namespace

bool DraftSchedule::knows(const DraftDecision& step) const {
  const MeasuredSteps& steps = steps_like(step);
  return steps.knows(step.num_rows(), /*with_drafts=*/true) &&
         steps.knows(step.num_rows(), /*with_drafts=*/false);
}

DraftDecision DraftSchedule::allot(std::span<DraftCandidate> candidates,
                                   std::int64_t num_prompt_tokens) const {
  DraftDecision decision{.num_sequences = std::ssize(candidates), .num_prompt_tokens = num_prompt_tokens};
  decision.without_drafts = most_drafts_ == 0 || candidates.empty();
  give_all(candidates, most_drafts_);
  // Before any can be had there is nothing to decide.
  if (!adapts_ || sum_of(candidates) == 0) return decision;
  const MeasuredSteps& steps = steps_like(decision);
  if (!knows(decision)) {
    if (steps.knows(decision.num_rows(), /*with_drafts=*/true)) give_all(candidates, 0);
  } else {
    decision.best_rate = allot_best(candidates, decision, /*drafted=*/false);
    if (steps_since_probe_ >= kProbePeriod && probe_credit_seconds_ >= 0) {
      const double each = static_cast<double>(sum_of(candidates)) / static_cast<double>(candidates.size());
      decision.probe = steps.stalest_level(decision.num_rows(), MeasuredSteps::level_of(each));
      give_all(candidates, *decision.probe);
    }
  }
  decision.without_drafts = sum_of(candidates) == 0;
  return decision;
}

void DraftSchedule::cut(std::span<DraftCandidate> candidates, const DraftDecision& decision) const {
  give_all(candidates, most_drafts_);
  if (adapts_ && !decision.probe && sum_of(candidates) > 0 && knows(decision))
    static_cast<void>(allot_best(candidates, decision, /*drafted=*/true));
}

double DraftSchedule::allot_best(std::span<DraftCandidate> candidates, const DraftDecision& step,
                                 bool drafted) const {
  struct Extension {
    double chance = 0;
    DraftCandidate* candidate = nullptr;
  };
  std::vector<Extension> extensions;
  for (DraftCandidate& candidate : candidates) {
    candidate.num_drafts = 0;
    double chain = 1;
    for (std::int64_t depth = 0; depth < candidate.most; ++depth) {
      chain *= candidate.confidence.empty()
                   ? acceptance_.chance(*candidate.record, depth)
                   : acceptance_.chance(candidate.confidence[static_cast<std::size_t>(depth)], depth);
      extensions.push_back({chain, &candidate});
    }
  }
  // Stable: a chain's drafts keep their order.
  std::ranges::stable_sort(extensions, std::greater(), &Extension::chance);

  const StepCurve curve = steps_like(step).curve(step.num_rows());
  auto tokens = static_cast<double>(step.num_rows());
  double best_rate = tokens / (drafted ? curve.with_drafts(0) : curve.without_drafts());
  double to_beat = drafted ? best_rate : best_rate * (1 + kLeastGain);
  std::size_t best = 0;
  for (std::size_t k = 1; k <= extensions.size(); ++k) {
    tokens += extensions[k - 1].chance;
    const double each = static_cast<double>(k) / static_cast<double>(candidates.size());
    const double rate = tokens / curve.with_drafts(each);
    if (rate <= to_beat) continue;
    best_rate = to_beat = rate;
    best = k;
  }
  for (const Extension& extension : std::span(extensions).first(best)) ++extension.candidate->num_drafts;
  return best_rate;
}

void DraftSchedule::took(const DraftDecision& decision, std::int64_t num_drafts, std::int64_t num_accepted,
                         double seconds) {
  if (!adapts_ || most_drafts_ == 0 || decision.num_sequences == 0 || !(seconds > 0)) return;
  MeasuredSteps& steps = decision.num_prompt_tokens > 0 ? mixed_steps_ : decoding_steps_;
  steps.add(decision.num_rows(),
            static_cast<double>(num_drafts) / static_cast<double>(decision.num_sequences), seconds);
  ++steps_since_probe_;
  // What is saved up is little: a probe now and then, not many at once.
  probe_credit_seconds_ = std::min(probe_credit_seconds_ + kProbeShare * seconds, seconds);
  if (!decision.probe) return;
  steps.had_turn(decision.num_rows(), *decision.probe);
  steps_since_probe_ = 0;
  const double worth = static_cast<double>(decision.num_rows() + num_accepted) / decision.best_rate;
  probe_credit_seconds_ -= std::max(0.0, seconds - worth);
}

}  // namespace baleen
