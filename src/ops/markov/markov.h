/// The Markov head of a DSpark head: what a token says of the one behind it is added to logits; and how sure
/// the head is of that one. (source: releases specification 2.1, 9.B1; tensors "markov_head.markov_w1",
/// "markov_head.markov_w2", "confidence_head.proj")
///
///     m_r = w1[tokens[r]]
///     logits[r, v] += sum_j m_r[j] w2[v, j]
///     confidence[r] = sum_i hidden[r, i] c[i] + sum_j m_r[j] c[d + j]     a logit: no sigmoid
///
/// All in float32, nothing is rounded. A sum is complete before it is added to its logit, and its order
/// depends on k and the instruction set or kernel alone, not on R or on other rows.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/bf16.h"
#include "ops/matmul/weight_matrix.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct MarkovArgs {
  /// [R], each a row of w1, which the engine checks; fewer where the last rows are padding of a device.
  std::span<const TokenId> tokens;
  std::int64_t first_row = 0;                ///< where the rows begin in the step's batch
  View<const Bf16Bits, 2> w1;                ///< [vocabulary, k], dense; k a multiple of 8
  const WeightMatrix* w2 = nullptr;          ///< [V, k] BF16; V may be a rank's part of the vocabulary
  Activations<2> logits;                     ///< [R, V] float32, read and overwritten
  ConstActivations<2> hidden;                ///< [R, d], before the norm; read for confidence alone
  std::span<const float> confidence_weight;  ///< [d + k]; empty: no confidence
  std::span<float> confidence;               ///< [R]
};

void markov_ref(const MarkovArgs& args);
void markov_cpu(const MarkovArgs& args, CpuContext& context);
[[nodiscard]] OpCost markov_cost(const MarkovArgs& args);

namespace ops {

struct Markov {
  using Args = MarkovArgs;
  static constexpr std::string_view kName = "markov";
  [[nodiscard]] static OpCost cost(const MarkovArgs& args) { return markov_cost(args); }
  [[nodiscard]] static CallShape shape(const MarkovArgs& args);
  static void accesses(const MarkovArgs& args, Accesses& to);
  static void check(const MarkovArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Markov>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
