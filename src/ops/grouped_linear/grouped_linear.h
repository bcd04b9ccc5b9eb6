/// First half of the output projection: every group of heads has its own matrix.   (source: forward pass 5.8)
/// z[t, g, :] = W_g o[t, g, :].  The FP8 weights act as their exact BF16 values: o is not quantised.
/// `training` and `training_bf16` take float32 weights and the sums of ops/dense_product.
#pragma once

#include <string_view>

#include "numeric/dtype.h"
#include "ops/dense_product/dense_product.h"
#include "ops/matmul/matmul.h"
#include "ops/operation/variant.h"

namespace baleen {

struct GroupedLinearArgs {
  ConstActivations<3> x;                 ///< [T, G, K]
  const WeightMatrix* weight = nullptr;  ///< [G R, K], group-major; "attn.wo_a"
  Activations<2> y;                      ///< [T, G R]
  Precision precision = Precision::kReleased;
  std::string_view name{};  ///< what people call the weight
};

/// The variants `training` and `training_bf16`.
void grouped_linear_training(const GroupedLinearArgs& args, Operands operands, CpuContext& context);
void grouped_linear_cpu(const GroupedLinearArgs& args, CpuContext& context);
/// With activations of 8 bits, and copies of FP8 weights as integers; `released` only.
void grouped_linear_int8(const GroupedLinearArgs& args, CpuContext& context);
void grouped_linear_ref(const GroupedLinearArgs& args);
[[nodiscard]] OpCost grouped_linear_cost(const GroupedLinearArgs& args);
[[nodiscard]] OpCost grouped_linear_backward_cost(const GroupedLinearArgs& args);
[[nodiscard]] std::int64_t grouped_linear_scratch_bytes(std::int64_t num_rows, std::int64_t num_groups,
                                                        std::int64_t num_inputs);

namespace ops {

struct GroupedLinear {
  using Args = GroupedLinearArgs;
  static constexpr std::string_view kName = "grouped_linear";
  [[nodiscard]] static OpCost cost(const GroupedLinearArgs& args) { return grouped_linear_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const GroupedLinearArgs& args) {
    return grouped_linear_backward_cost(args);
  }
  [[nodiscard]] static CallShape shape(const GroupedLinearArgs& args);
  static void accesses(const GroupedLinearArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<GroupedLinear>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
