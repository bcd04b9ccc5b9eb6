/// Random weights of a geometry in memory, for benchmarks and plans of models that are not at hand.
#pragma once

#include <cstdint>
#include <memory>

#include "model/weights.h"
#include "parallel/thread_pool.h"

namespace baleen {

/// Whose bytes a made-up tensor has.
enum class MadeUpBytes : std::uint8_t {
  /// Tensors that differ in the number of their layer or expert alone share them: a model of hundreds of
  /// gigabytes takes a few. On a CPU such a model is read from caches more than a real one.
  kShared,
  kOfEachTensor
};

/// `zipf_exponent`: as for `make_random_weights`. Results mean nothing; shapes, formats and the spread of
/// values do. Throws `Error` for a config that cannot be run.
[[nodiscard]] std::unique_ptr<ModelWeights> made_up_weights(const ModelConfig& config, std::uint64_t seed,
                                                            ThreadPool& pool,
                                                            MadeUpBytes bytes = MadeUpBytes::kShared,
                                                            double zipf_exponent = 0);

}  // namespace baleen
