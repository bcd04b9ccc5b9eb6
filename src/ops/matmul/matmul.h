/// The tile kernel under every linear operation: y[m, n] = sum_k x[m, k] * w[n, k] in float32.
///
/// NVFP4: w[n, k] is the code's value times its group's scale, exact in float32 and BF16, and the sum is
/// multiplied by the matrix's scale before it is rounded: y = bf(scale * sum).
///
/// One output is always computed by the same chain of multiply-adds, whatever else is in the batch, however
/// rows and columns are cut into tiles and whichever thread runs it: a vector accumulator takes its products
/// block by block in ascending k, within a block in the order in which the format unpacks on this instruction
/// set, and its lanes are added at the end. That is what makes logits independent of the batch.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/dtype.h"
#include "ops/matmul/weight_matrix.h"
#include "ops/operation/operation.h"
#include "tensor/activations.h"

namespace baleen {

/// How activations are prepared in front of a product.
enum class ActivationRounding : std::uint8_t {
  kNone,
  kFp8,     ///< e4m3 per 128 inputs with a power-of-two scale, and back (the released code)
  kFp8x32,  ///< a scale per 32 inputs (DeepSeek-V4.1)
  kBf16,    ///< to BF16, as all activations of the released code are: FP8 weights may meet them as BF16
  kInt8     ///< to integers of 8 bits with a scale per 32 inputs (numeric/int8_group.h): kFp4, kInt8 weights
};

/// Inputs that share a scale, of the roundings to e4m3; 0 of the others.
[[nodiscard]] constexpr std::int64_t fp8_group(ActivationRounding rounding) {
  if (rounding == ActivationRounding::kFp8) return kActivationGroup;
  return rounding == ActivationRounding::kFp8x32 ? kSmallActivationGroup : 0;
}

/// Makes of one row of activations what the kernel of this instruction set multiplies with weights of
/// `format`, rounding on the way: float32 values in the order in which weights are unpacked, or integers with
/// a scale per 128 or 32. x, packed: [K] float32, not overlapping; packed 64-byte aligned. Inputs are packed
/// in blocks of 128, each into its own part of `packed`.
void pack_activations(std::span<const float> x, WeightFormat format, ActivationRounding rounding,
                      float* packed);

/// y[m, n] for all m in [0, num_rows) and n in [n_begin, n_end); rounded to BF16 if `round_bf16`. packed:
/// rows of K from pack_activations of the same format and rounding; output row m takes packed row
/// row_index[m], or m without an index. y: row m at y + m * y_stride, column n at index n.
struct MatmulTile {
  const WeightMatrix* weight = nullptr;
  std::int64_t n_begin = 0;
  std::int64_t n_end = 0;
  ActivationRounding rounding = ActivationRounding::kNone;  ///< how `packed` was rounded
  const float* packed = nullptr;
  const std::int32_t* row_index = nullptr;
  std::int64_t num_rows = 0;
  float* y = nullptr;
  std::int64_t y_stride = 0;
  bool round_bf16 = false;
};
void matmul_tile(const MatmulTile& tile);

/// The specification of `matmul_tile` on unpacked activations (x rows `x_stride` apart): plain loops, double
/// sums.
void matmul_ref(const WeightMatrix& weight, ConstActivations<2> x, ActivationRounding rounding,
                bool round_bf16, Activations<2> y);

/// One product of a group: y = x W^T, rounded to BF16 if `round_bf16`.
struct MatmulProduct {
  const WeightMatrix* weight = nullptr;  ///< [N, K]
  ConstActivations<2> x;                 ///< [T, K]
  ActivationRounding rounding = ActivationRounding::kNone;
  bool round_bf16 = false;
  Activations<2> y;  ///< [T, N]
};

/// Runs all products of the group over the pool, packing first (products with the same x, format and rounding
/// share their packed rows) and then in one parallel loop. Takes scratch for the packed rows.
void matmul(std::span<const MatmulProduct> products, CpuContext& context);
/// The specification: `matmul_ref` each.
void matmul_ref(std::span<const MatmulProduct> products);

/// Scratch of `matmul` for one set of packed rows.
[[nodiscard]] std::int64_t matmul_scratch_bytes(std::int64_t num_rows, std::int64_t num_inputs);

/// Cuts a product into work items for the pool: blocks of at most 128 rows, and column ranges (multiples of
/// 16) of which every thread gets several and whose weights stay in the second-level cache while the rows
/// pass.
struct MatmulPartition {
  MatmulPartition(std::int64_t num_rows, std::int64_t num_columns, std::int64_t num_inputs, int num_threads);

  static constexpr std::int64_t kMaxBlockRows = 128;

  std::int64_t rows_per_item = 0;
  std::int64_t columns_per_item = 0;
  std::int64_t num_row_blocks = 0;
  std::int64_t num_column_blocks = 0;

  [[nodiscard]] std::int64_t num_items() const { return num_row_blocks * num_column_blocks; }
};

/// At which rate products run: NVFP4 weights, and FP8 and FP4 ones that meet activations as they are, act as
/// their exact BF16 values.
[[nodiscard]] MathFormat product_format(WeightFormat format, ActivationRounding rounding);
/// FLOPs of y = x W^T over `num_rows` rows of x, and the weight, read once (also for no rows). x and y are
/// counted by the operation that has them as arguments.
[[nodiscard]] OpCost matmul_cost(const WeightMatrix& weight, double num_rows, ActivationRounding rounding);
/// Of dW += dyᵀ x and, unless x gets no gradient, dx = dy W: two products at the forward's rate, W read
/// once. x, dx and dy are counted as above.
[[nodiscard]] OpCost matmul_backward_cost(const WeightMatrix& weight, double num_rows,
                                          ActivationRounding rounding, bool with_input = true);

}  // namespace baleen
