/// Random weights, tensor by tensor, scaled so that activations, routing and index scores are well spread.
#pragma once

#include <cstdint>
#include <memory>

#include "model/config.h"
#include "model_files/weight_stream.h"
#include "parallel/thread_pool.h"

namespace baleen {

/// Norms are around 1, matrices have deviation K^-1/2, the router 2 d^-1/2, the head 3 d^-1/2, hash rows are
/// distinct experts, those of rank r with a probability of about r^-zipf_exponent, where every table ranks
/// for itself. The bytes depend on config, name and seed alone. `config` and `pool` must outlive the source.
[[nodiscard]] std::unique_ptr<WeightSource> make_random_weights(const ModelConfig& config,
                                                                const StorageFormats& formats,
                                                                std::uint64_t seed, ThreadPool& pool,
                                                                double zipf_exponent = 0);

}  // namespace baleen
