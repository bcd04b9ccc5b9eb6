/// The two passes over a row of logits that cost time: its extremes, and exponentials of it in double
/// precision.
#pragma once

#include <cstddef>
#include <span>

namespace baleen {

struct LogitExtremes {
  float max = 0;  ///< largest logit that is not NaN; -infinity when there is none
  bool has_nan = false;
};

[[nodiscard]] LogitExtremes logit_extremes(std::span<const float> logits);

/// weights[i] = exp((logits[i] - max) / temperature), within 2 units in the last place; 0 for logits that are
/// -infinity or below `lowest`. False when all are below: runs of such logits cost a comparison, no
/// exponential. max is finite and no logit exceeds it; temperature > 1e-300; weights is as long as logits.
/// The difference is taken in double: in float it would cost a relative 1e-6 of the far tail.
bool softmax_weights(std::span<const float> logits, float max, double temperature, float lowest,
                     std::span<double> weights);

/// log(sum_i exp(logits[i])), summed in double in an order fixed by the length alone. max as above.
[[nodiscard]] double log_sum_exp(std::span<const float> logits, float max);

/// How many weights the callers of `softmax_weights` take at a time: 2 KB of doubles stay in the first-level
/// cache.
inline constexpr std::size_t kWeightChunk = 256;

}  // namespace baleen
