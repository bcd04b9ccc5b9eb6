/// What a memory of n-grams adds to a token's residual streams: as much of the value as each stream's key
/// fits it,
///
///     a_s = d^-1/2 (sum_j x_s[j] q_s[j] k_s[j] key_s[j]) / (rms(x_s) rms(key_s))
///     x_s <- bf(x_s + gate(a_s) value),   rms(v) = sqrt(mean(v^2) + eps)
///
/// in float32; keys and value are the product of the token's rows of the table (engram_lookup.h) with
/// "engram.wkv". (source: releases specification 2.7, step 5, and 9.C; tensors "engram.q_weight",
/// "engram.k_weight")
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "numeric/bf16.h"
#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct EngramArgs {
  std::span<const TokenId> tokens;   ///< [R] the ids of these rows
  TokenId image_token = -1;          ///< rows of this id keep their streams; -1: there is none
  ConstActivations<2> projected;     ///< [R, (n + 1) d]: a key for each stream, then the value
  View<const Bf16Bits, 2> q_weight;  ///< [n, d]
  View<const Bf16Bits, 2> k_weight;  ///< [n, d]
  float eps = 0;
  Precision precision = Precision::kReleased;  ///< `exact` does not round
  Activations<3> streams;                      ///< [R, n, d], read and overwritten

  [[nodiscard]] std::int64_t num_streams() const { return streams.extent(1); }
  [[nodiscard]] std::int64_t width() const { return streams.extent(2); }
};

/// Below this magnitude a key counts as fitting, or not fitting, by its sign alone.
inline constexpr float kLeastEngramFit = 1e-6F;

/// The logistic function of a root that keeps the sign of `fit`, that of a zero too. NaN stays NaN.
[[nodiscard]] inline float engram_gate(float fit) {
  const float magnitude = std::fabs(fit);
  const float root = std::sqrt(magnitude < kLeastEngramFit ? kLeastEngramFit : magnitude);
  return 1.0F / (1.0F + std::exp(-std::copysign(root, fit)));
}

void engram_ref(const EngramArgs& args);
void engram_cpu(const EngramArgs& args, CpuContext& context);
[[nodiscard]] OpCost engram_cost(const EngramArgs& args);

namespace ops {

struct Engram {
  using Args = EngramArgs;
  static constexpr std::string_view kName = "engram";
  [[nodiscard]] static OpCost cost(const EngramArgs& args) { return engram_cost(args); }
  [[nodiscard]] static CallShape shape(const EngramArgs& args);
  static void accesses(const EngramArgs& args, Accesses& to);
  static void check(const EngramArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Engram>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
