/// Logits: float32 products of the normalised rows with the head matrix.
/// (source: forward pass 3; "head.weight")
/// `training` and `training_bf16` take float32 weights and the sums of ops/dense_product.
#pragma once

#include "ops/matmul/matmul.h"
#include "ops/operation/variant.h"

namespace baleen {

struct LmHeadArgs {
  ConstActivations<2> x;                 ///< [R, d]
  const WeightMatrix* weight = nullptr;  ///< [V, d] BF16
  Activations<2> logits;                 ///< [R, V], not rounded
};

void lm_head_cpu(const LmHeadArgs& args, CpuContext& context);
void lm_head_ref(const LmHeadArgs& args);
[[nodiscard]] OpCost lm_head_cost(const LmHeadArgs& args);
[[nodiscard]] OpCost lm_head_backward_cost(const LmHeadArgs& args);

namespace ops {

struct LmHead {
  using Args = LmHeadArgs;
  static constexpr std::string_view kName = "lm_head";
  [[nodiscard]] static OpCost cost(const LmHeadArgs& args) { return lm_head_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const LmHeadArgs& args) { return lm_head_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const LmHeadArgs& args);
  static void accesses(const LmHeadArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<LmHead>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
