/// How long a step takes: all that the serving simulation needs to know of a model and its machine.
#pragma once

#include <span>

#include "simulator/graph/workload.h"

namespace baleen {

/// Not thread-safe.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  /// Seconds from the start of one step to the start of the next that follows at once: the engine's and the
  /// host's work. Finite and positive. `parts`: at least one.
  [[nodiscard]] virtual double step_seconds(std::span<const QueryPart> parts) = 0;
  /// Seconds of one link of chains of drafts: the draft head over one token of each sequence, at `start`.
  /// `depth`: 0 for the first link, which is dearer where a head computes a whole block with it.
  [[nodiscard]] virtual double draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) = 0;
};

}  // namespace baleen
