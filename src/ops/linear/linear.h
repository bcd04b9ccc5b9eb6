/// Linear layers without bias, y = x W^T, several of one input at a time.    (source: forward pass 2.4)
///
/// FP8 and FP4 weights see activations rounded to e4m3 per 128 or 32 inputs (`released` only; WeightMatrix);
/// BF16 and float32 weights see x as it is. Sums are float32; a result is rounded to BF16 unless its consumer
/// wants float32 ("L32": router and compressor). `exact` rounds nothing. Every output keeps one order of
/// summation whatever the batch (ops/matmul). `training` and `training_bf16` take float32 weights and the
/// sums of ops/dense_product.
#pragma once

#include <span>
#include <string_view>

#include "numeric/dtype.h"
#include "ops/matmul/matmul.h"
#include "ops/operation/variant.h"
#include "tensor/fp8_rows.h"

namespace baleen {

struct LinearOutput {
  const WeightMatrix* weight = nullptr;  ///< [N, K]
  Activations<2> y;                      ///< [T, N]
  bool keep_f32 = false;                 ///< L32: never rounded
  std::string_view name{};               ///< what people call the weight: "wq_a"
  /// Whether a gradient of y goes on to x. An indexer learns by a loss of its own, which ends at its weights.
  bool trains_input = true;
};

struct LinearArgs {
  ConstActivations<2> x;                  ///< [T, K]
  Fp8Rows x_fp8{};                        ///< x for FP8 products, where an earlier operation has made it
  std::span<const LinearOutput> outputs;  ///< at most 8
  Precision precision = Precision::kReleased;
};

/// Rounding in front of weights of `format`, of a model whose groups have `group` inputs; and in front of a
/// matrix.
[[nodiscard]] ActivationRounding activation_rounding(WeightFormat format, int group, Precision precision);
[[nodiscard]] ActivationRounding activation_rounding(const WeightMatrix& weight, Precision precision);

void linear_cpu(const LinearArgs& args, CpuContext& context);
/// With activations of 8 bits where the contract has e4m3, and copies of FP8 weights as integers; `released`
/// only.
void linear_int8(const LinearArgs& args, CpuContext& context);
void linear_ref(const LinearArgs& args);
[[nodiscard]] OpCost linear_cost(const LinearArgs& args);
[[nodiscard]] OpCost linear_backward_cost(const LinearArgs& args);
/// Packed rows of two formats at most.
[[nodiscard]] std::int64_t linear_scratch_bytes(std::int64_t num_rows, std::int64_t num_inputs);

namespace ops {

struct Linear {
  using Args = LinearArgs;
  static constexpr std::string_view kName = "linear";
  [[nodiscard]] static OpCost cost(const LinearArgs& args) { return linear_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const LinearArgs& args) { return linear_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const LinearArgs& args);
  [[nodiscard]] static CallKey key(const LinearArgs& args);
  static void accesses(const LinearArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<Linear>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
