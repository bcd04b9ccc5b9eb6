/// Which variants there were for each call of an operation, and why each was chosen or not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operation/operation.h"
#include "ops/operation/variant.h"

namespace baleen {

enum class VariantOutcome : std::uint8_t {
  kChosen,
  kRefused,    ///< it cannot run: `reason`
  kSlower,     ///< another is quicker: `reason`
  kNotNeeded,  ///< it could run; one before it was chosen
  kExcluded    ///< another is forced
};

struct VariantVerdict {
  std::string_view operation;  ///< or fusion: "linear", "hc_post_pre_norm"
  std::string_view variant;
  std::string call;  ///< rows and extents
  VariantOutcome outcome = VariantOutcome::kNotNeeded;
  Reason reason{};
  OpCost cost;  ///< of the call
};

/// One verdict of a variant for each call or outcome that differs, in order of the first of them.
class VariantReport {
 public:
  void add(VariantVerdict verdict) {
    for (const VariantVerdict& known : verdicts_) {
      if (known.operation == verdict.operation && known.variant == verdict.variant &&
          known.call == verdict.call && known.outcome == verdict.outcome && known.reason == verdict.reason)
        return;
    }
    verdicts_.push_back(std::move(verdict));
  }
  [[nodiscard]] const std::vector<VariantVerdict>& verdicts() const { return verdicts_; }

 private:
  std::vector<VariantVerdict> verdicts_;
};

}  // namespace baleen
