/// The weights that the passes of a step take: the masters, or under quantisation-aware training the values
/// that an export of them stores. Gradients of those go to the masters as they are.
/// (source: training 8)
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/thread_pool.h"
#include "trainer/run/run_checkpoint.h"

namespace baleen {

class ForwardWeights {
 public:
  /// All arguments outlive it. Holds a second copy of the weights from the first step on that rounds.
  ForwardWeights(const TrainConfig& config, const RunState& state, ThreadPool& pool)
      : config_(config), state_(state), pool_(pool) {}

  /// Of the step that follows `state.step`, or of an evaluation after it. Rounds once a step.
  [[nodiscard]] const Parameters<float>& now();

 private:
  const TrainConfig& config_;
  const RunState& state_;
  ThreadPool& pool_;
  std::optional<Parameters<float>> stored_;
  std::int64_t stored_step_ = -1;  ///< whose weights `stored_` has
};

}  // namespace baleen
