/// Logits to ids on the device, for rows that need no penalties, masks or logprobs: what `Sampler`
/// (sampling/sampler.h) does with them, in the same order.
///
///     temperature below 1e-5: the largest logit, the lowest id of equals
///     else: temperature, min-p, top-k, top-p (each a prefix of the order by falling logit, then rising id; each of what the
///     one before left), and one draw from the softmax of what is left: probabilities are summed in order of id, and the
///     token in whose share `uniform` falls is taken
///
/// The reference and the sampler weigh in float64. The device weighs in float32 and adds up in fixed point,
/// so a draw within about 1e-6 of a boundary between two shares, or a top-p that ends within as much of one,
/// may fall to the other side. What is greedy, min-p and top-k are exact.
#pragma once

#include <cstdint>
#include <span>

#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Of logits without a choice: one is NaN or +infinity, or all are -infinity.
inline constexpr TokenId kNoToken = -1;

/// How one row is to be sampled; fields as in `SamplingParams`.
struct SampleRow {
  double temperature = 0.0;
  int top_k = 0;       ///< 0: all
  double top_p = 1.0;  ///< lies in (0, 1]
  double min_p = 0.0;  ///< lies in [0, 1]
  double uniform = 0;  ///< lies in [0, 1): `uniform_draw` of the request's seed and draw
};

struct SampleArgs {
  ConstActivations<2> logits;       ///< [R, V] float32
  std::span<const SampleRow> rows;  ///< [R], in host memory on every device; read before the call returns
  std::span<TokenId> ids;           ///< out [R]; kNoToken where there is no choice
};

/// Below it the likeliest token is taken.
inline constexpr double kGreedyTemperature = 1e-5;

void sample_ref(const SampleArgs& args);
[[nodiscard]] OpCost sample_cost(const SampleArgs& args);

namespace ops {

struct Sample {
  using Args = SampleArgs;
  static constexpr std::string_view kName = "sample";
  [[nodiscard]] static OpCost cost(const SampleArgs& args) { return sample_cost(args); }
  [[nodiscard]] static CallShape shape(const SampleArgs& args);
  static void accesses(const SampleArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<Sample>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
