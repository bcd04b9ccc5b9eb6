/// One AdamW update with decoupled weight decay and bias correction, elementwise. (source: training 5)
#pragma once

#include <cstdint>
#include <span>

#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"

namespace baleen {

struct AdamWState {
  std::span<float> first;   ///< running mean of the gradient
  std::span<float> second;  ///< running mean of its square
};

/// m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g²;
/// w <- w (1 - lr decay) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon). All spans have one size;
/// `update` is t, from 1. The arithmetic of an element is in double, the states are float32.
void adamw_step(const AdamWConfig& config, double weight_decay, double learning_rate, std::int64_t update,
                std::span<const float> gradient, AdamWState state, std::span<float> weights,
                ThreadPool& pool);

}  // namespace baleen
