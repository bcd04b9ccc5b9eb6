#include "scheduler/draft_acceptance.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace baleen {
namespace {

/// What counts of the past, in drafts: a request follows its text, all of them together their mixture.
constexpr double kRequestMemory = 32, kCommonMemory = 256;
/// So many drafts of a request count as much as what is known of all.
constexpr double kCommonWeight = 8;
/// Before anything is known.
constexpr double kFirstGuess = 0.6, kFirstGuessWeight = 4;

void add(DraftHistory::AtDepth& at, double accepted, double memory) {
  const double kept = 1 - 1 / memory;
  at.num_checked = kept * at.num_checked + 1;
  at.num_accepted = kept * at.num_accepted + accepted;
}

}  // namespace

double stated_chance(double logit) { return 1 / (1 + std::exp(-logit)); }

void DraftAcceptance::see(DraftHistory& record, const CheckedDrafts& drafts) {
  const std::int64_t num_checked = drafts.num_accepted + (drafts.was_refused ? 1 : 0);
  BALEEN_CHECK_LE(num_checked, std::ssize(of_all_));
  record.depths.resize(of_all_.size());
  for (std::int64_t depth = 0; depth < num_checked; ++depth) {
    const auto i = static_cast<std::size_t>(depth);
    const bool accepted = depth < drafts.num_accepted;
    double evidence = accepted ? 1 : 0;
    if (!drafts.confidence.empty()) {
      // The head knows more than one outcome tells, and the outcomes correct what it is wrong about.
      evidence = (evidence + chance(drafts.confidence[i], depth)) / 2;
      calibrate(scales_[i], drafts.confidence[i], accepted);
    }
    add(record.depths[i], evidence, kRequestMemory);
    add(of_all_[i], evidence, kCommonMemory);
  }
}

double DraftAcceptance::chance(const DraftHistory& record, std::int64_t depth) const {
  const auto i = static_cast<std::size_t>(depth);
  const DraftHistory::AtDepth& all = of_all_[i];
  const double common =
      (all.num_accepted + kFirstGuessWeight * kFirstGuess) / (all.num_checked + kFirstGuessWeight);
  if (record.depths.empty()) return common;
  const DraftHistory::AtDepth& own = record.depths[i];
  return (own.num_accepted + kCommonWeight * common) / (own.num_checked + kCommonWeight);
}

double DraftAcceptance::chance(float confidence, std::int64_t depth) const {
  return stated_chance(scales_[static_cast<std::size_t>(depth)].inverse_temperature * confidence);
}

/// A step of Newton's method towards the inverse temperature under which the outcomes are likeliest.
void DraftAcceptance::calibrate(Scale& scale, double logit, bool accepted) {
  constexpr double kMin = 1.0 / 8, kMax = 8;  // beyond, the confidences say nothing, or everything
  const double chance = stated_chance(scale.inverse_temperature * logit);
  scale.curvature = (1 - 1 / kCommonMemory) * scale.curvature + chance * (1 - chance) * logit * logit;
  const double slope = ((accepted ? 1 : 0) - chance) * logit;
  scale.inverse_temperature = std::clamp(scale.inverse_temperature + slope / scale.curvature, kMin, kMax);
}

}  // namespace baleen
