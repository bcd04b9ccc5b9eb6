/// Random weights of a geometry in memory, for benchmarks and plans of models that are not at hand.
#pragma once

#include <cstdint>
#include <memory>

#include "model/weights.h"
#include "parallel/thread_pool.h"

namespace baleen {

/// Tensors that differ in the number of their layer or expert alone share their bytes: a model of hundreds of
/// gigabytes takes a few. Results mean nothing; shapes, formats and the spread of values do. Throws `Error` for a
/// config that cannot be run.
[[nodiscard]] std::unique_ptr<ModelWeights> made_up_weights(const ModelConfig& config, std::uint64_t seed,
                                                            ThreadPool& pool);

}  // namespace baleen
