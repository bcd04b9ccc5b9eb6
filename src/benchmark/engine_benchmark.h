/// What `baleen bench` does with an engine: phases of steps, operation by operation, or requests of a closed
/// loop; tables or JSON on standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmark/phase.h"
#include "ops/matmul/weight_matrix.h"
#include "rank_engine/rank_engine.h"
#include "scheduler/scheduler_options.h"
#include "simulator/serving/acceptance.h"

namespace baleen {

/// Steps of one token before a measurement.
inline constexpr std::int64_t kMinWarmUpSteps = 2;

struct EngineBenchmark {
  std::string made_up;               ///< the geometry of made-up weights; empty: a checkpoint's are used
  std::optional<double> zipf;        ///< exponent by which tables choose experts; none: the router does
  WeightFormat expert_weights = {};  ///< how routed experts are stored, for the list of variants
  std::int64_t warm_up = kMinWarmUpSteps;  ///< steps that are not measured, before the first measurement
  std::vector<std::int64_t> sequences{1};  ///< measured one number after the other
  std::int64_t clients = 0;                ///< requests at a time; 0: phases
  std::int64_t requests = 0;               ///< how many in all; 0: four for each client
  std::int64_t prompt = 512, decode = 32;  ///< tokens
  std::int64_t at = 0;                     ///< positions of made-up history
  std::int64_t drafts = 0;                 ///< how many a step of decoding has
  Acceptance acceptance;                   ///< how often these are right
  SchedulerOptions scheduler = {};         ///< says when requests are drafted for
  bool json = false;
  bool lists_kernels = false;  ///< instead of timing

  [[nodiscard]] std::int64_t max_sequences() const;
  /// That a sequence takes.
  [[nodiscard]] std::int64_t positions() const;
  /// Sequences, cache, where it has no size yet, and drafts as the measurement takes them.
  void fit(EngineOptions& options) const;
};

/// Prompt, history and decoding of so many sequences, after `num_warm_up_steps` that are not measured; the
/// sequences are closed again.
[[nodiscard]] std::vector<Phase> measured_phases(const EngineBenchmark& load, ModelEngine& engine,
                                                 std::int64_t num_sequences, std::int64_t num_warm_up_steps);

/// Requests through the scheduler; `clients` is at least 1.
void benchmark_serving(const EngineBenchmark& load, ModelEngine& engine);

/// Prompt, history and decoding of each number of sequences, or its list of variants. Throws `Error` where
/// the engine's cache or the model's context has no room for them.
void benchmark_phases(const EngineBenchmark& load, ModelEngine& engine);

}  // namespace baleen
