/// Which variants there were for each call of an operation, and why each was chosen or not.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operation/operation.h"
#include "ops/operation/operation_timer.h"
#include "ops/operation/variant.h"

namespace baleen {

enum class VariantOutcome : std::uint8_t {
  kChosen,
  kRefused,    ///< it cannot run: `reason`
  kSlower,     ///< it could run; another is predicted to take no longer
  kNotNeeded,  ///< it could run; nothing is predicted, or one that does more operations was chosen
  kExcluded    ///< another is forced
};

struct VariantVerdict {
  std::string_view operation;  ///< or fusion: "linear", "hc_post_pre_norm"
  std::string_view variant;
  std::string call;  ///< rows and extents
  VariantOutcome outcome = VariantOutcome::kNotNeeded;
  Reason reason{};
  OpCost cost;                                ///< what the call costs
  std::optional<double> predicted_seconds{};  ///< none: the variant has no prediction, or cannot run
};

/// One verdict of a variant for each call or outcome that differs, in order of the first of them.
class VariantReport {
 public:
  /// Where the times of the calls with this verdict are added up. Valid while this is.
  CallTime& add(VariantVerdict verdict) {
    for (std::size_t i = 0; i < verdicts_.size(); ++i) {
      const VariantVerdict& known = verdicts_[i];
      if (known.operation == verdict.operation && known.variant == verdict.variant &&
          known.call == verdict.call && known.outcome == verdict.outcome && known.reason == verdict.reason)
        return times_[i];
    }
    verdicts_.push_back(std::move(verdict));
    return times_.emplace_back();
  }
  [[nodiscard]] const std::vector<VariantVerdict>& verdicts() const { return verdicts_; }
  /// Of the calls with verdict `i`, as far as they ran and were timed.
  [[nodiscard]] const CallTime& time(std::size_t i) const { return times_[i]; }

 private:
  std::vector<VariantVerdict> verdicts_;
  std::deque<CallTime> times_;
};

}  // namespace baleen
