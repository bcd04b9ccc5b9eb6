/// How long a step takes: all that the serving simulation needs to know of a model and its machine.
#pragma once

#include <cstdint>
#include <span>

namespace baleen {

/// One sequence's part of a step.
struct StepPart {
  std::int64_t start = 0;           ///< tokens that the sequence has in the cache
  std::int64_t num_tokens = 1;      ///< new ones, at least one
  std::int64_t num_logit_rows = 0;  ///< of those, how many want logits
};

/// Not thread-safe.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  /// Seconds from the start of one step to the start of the next that follows at once: the engine's and the host's
  /// work. Finite and positive. `parts`: at least one.
  [[nodiscard]] virtual double step_seconds(std::span<const StepPart> parts) = 0;
  /// Seconds of one link of chains of drafts: the MTP block over one token of each sequence, at `start`.
  [[nodiscard]] virtual double draft_seconds(std::span<const StepPart> chains) = 0;
};

}  // namespace baleen
