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

bool DraftSchedule::knows(std::int64_t num_sequences) const {
  return steps_.knows(num_sequences, /*with_drafts=*/true) &&
         steps_.knows(num_sequences, /*with_drafts=*/false);
}

DraftDecision DraftSchedule::allot(std::span<DraftCandidate> candidates, bool has_prompts) const {
  const std::int64_t num_sequences = std::ssize(candidates);
  DraftDecision decision{.num_sequences = num_sequences, .has_prompts = has_prompts};
  decision.without_drafts = most_drafts_ == 0 || candidates.empty();
  give_all(candidates, most_drafts_);
  // Before any can be had there is nothing to decide.
  if (!adapts_ || sum_of(candidates) == 0) return decision;
  if (!knows(num_sequences)) {
    if (!has_prompts && steps_.knows(num_sequences, /*with_drafts=*/true)) give_all(candidates, 0);
  } else {
    decision.best_rate = allot_best(candidates, /*drafted=*/false);
    if (!has_prompts && steps_since_probe_ >= kProbePeriod && probe_credit_seconds_ >= 0) {
      const std::int64_t best = MeasuredSteps::level_of(num_sequences, sum_of(candidates));
      decision.probe = steps_.stalest_level(num_sequences, best);
      give_all(candidates, *decision.probe);
    }
  }
  decision.without_drafts = sum_of(candidates) == 0;
  return decision;
}

void DraftSchedule::cut(std::span<DraftCandidate> candidates) const {
  give_all(candidates, most_drafts_);
  if (adapts_ && sum_of(candidates) > 0 && knows(std::ssize(candidates)))
    static_cast<void>(allot_best(candidates, /*drafted=*/true));
}

double DraftSchedule::allot_best(std::span<DraftCandidate> candidates, bool drafted) const {
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

  const auto num_sequences = static_cast<double>(candidates.size());
  const StepCurve curve = steps_.curve(std::ssize(candidates));
  double best_rate = num_sequences / (drafted ? curve.with_drafts(0) : curve.without_drafts());
  double to_beat = drafted ? best_rate : best_rate * (1 + kLeastGain);
  double tokens = num_sequences;
  std::size_t best = 0;
  for (std::size_t k = 1; k <= extensions.size(); ++k) {
    tokens += extensions[k - 1].chance;
    const double rate = tokens / curve.with_drafts(static_cast<double>(k) / num_sequences);
    if (rate <= to_beat) continue;
    best_rate = to_beat = rate;
    best = k;
  }
  for (const Extension& extension : std::span(extensions).first(best)) ++extension.candidate->num_drafts;
  return best_rate;
}

void DraftSchedule::took(const DraftDecision& decision, std::int64_t num_drafts, std::int64_t num_accepted,
                         double seconds) {
  const std::int64_t num_sequences = decision.num_sequences;
  const bool is_measured = num_sequences > 0 && !decision.has_prompts && seconds > 0;
  if (!adapts_ || most_drafts_ == 0 || !is_measured) return;
  steps_.add(num_sequences, num_drafts, seconds);
  ++steps_since_probe_;
  // What is saved up is little: a probe now and then, not many at once.
  probe_credit_seconds_ = std::min(probe_credit_seconds_ + kProbeShare * seconds, seconds);
  if (!decision.probe) return;
  steps_.had_turn(num_sequences, *decision.probe);
  steps_since_probe_ = 0;
  const double worth = static_cast<double>(num_sequences + num_accepted) / decision.best_rate;
  probe_credit_seconds_ -= std::max(0.0, seconds - worth);
}

}  // namespace baleen
