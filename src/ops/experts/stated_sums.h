/// Routed experts whose bits do not depend on which processor computes them: the order of every sum is
/// stated, and all processors can keep to it. (`ExpertSums::kStated`)
///
/// Weights are FP4, activations e4m3 codes with a scale S for each slice of 128 inputs, as `released` has
/// them, or (DeepSeek-V4.1) S_g for each group of 32. W is twice the value of a weight's code, X is 2^9 times
/// that of an activation's: integers, |W| <= 12 and |X| <= 448 * 2^9. Of a weight row and a token
///
///     G_g = sum of W X over the 32 inputs of group g       in integers, exact: |G_g| < 2^27
///     p_g = float(G_g) * s_g                               s_g: the group's e8m0 scale
///     slice = (p_0 + p_2) + (p_1 + p_3)                    of the slice's groups
///     sum = fma(slice, S * 2^-10, sum)                     slices in ascending order, from 0
///
/// in float32, every operation rounded to nearest even, subnormal numbers kept; of groups with scales
///
///     q_g = p_g * (S_g * 2^-10)
///     sum = ((q_0 + q_2) + (q_1 + q_3)) + sum
///
/// which are the bits of one scale where the four are the same and no number is subnormal. Where a code of
/// the inputs that share a scale is NaN, it is. So integer units, vectors of any width and plain loops give
/// the same bits.
///
/// The activation between the products is `stated_swiglu`, rounded to BF16 and quantised like every
/// activation (numeric/block_scale.h), the output is rounded to BF16 unless the inner width is split.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/bf16.h"
#include "ops/matmul/weight_matrix.h"
#include "tensor/fp8_rows.h"

namespace baleen {

struct ExpertWeights;

/// e^x as `stated_swiglu` has it, of x in [kMin, kMax]: n = rint(x log2 e), by adding and taking away
/// 1.5 * 2^23; r = fma(-n, ln 2's lower part, fma(-n, its upper part, x)); a polynomial in r by Horner's rule
/// with fma, highest power first; times 2^n, exactly.
struct StatedExp {
  static constexpr float kMin = -87.0F, kMax = 88.0F;
  static constexpr float kLog2E = 0x1.715476p+0F;
  static constexpr float kRounder = 0x1.8p+23F;
  static constexpr float kLn2Upper = 0x1.62e4p-1F, kLn2Lower = 0x1.7f7d1cp-20F;
  static constexpr float kPolynomial[] = {0x1.6c16c2p-10F, 0x1.111112p-7F, 0x1.555556p-5F, 0x1.555556p-3F,
                                          0x1p-1F,         0x1p+0F,        0x1p+0F};
};

/// Clamped SwiGLU of BF16 values of w1 x and w3 x (ops/experts/swiglu.h): weight * ((g / (1 + e^-g)) * v),
/// each operation rounded to float32. The exponent -g is clamped to the range of `StatedExp`; NaN of g or v
/// is NaN. `limit` 0 clamps nothing.
[[nodiscard]] float stated_swiglu_ref(float gate, float up, float limit, float weight);

/// y[n] = sum over a token's inputs, [rows] of `weight` in FP4. `codes`: [cols] e4m3; `scales`: one
/// for each `weight.activation_group` of them. `rounds`: to BF16. The specification.
void stated_product_ref(const WeightMatrix& weight, std::span<const std::uint8_t> codes,
                        std::span<const float> scales, bool rounds, std::span<float> y);

/// Rows of one expert, as they come from the router: what `experts` computes before it adds up.
struct StatedExpertRows {
  const ExpertWeights* expert = nullptr;
  Fp8Rows x;                                ///< [T, d], in groups of w1's; of the call's those of `row_index`
  const std::int32_t* row_index = nullptr;  ///< [num_rows], rows of x
  const float* weights = nullptr;           ///< [num_rows] routing weights
  std::int64_t num_rows = 0;
  Bf16Bits* y = nullptr;  ///< [num_rows, d]
};

/// The specification of `StatedExpertRows`.
void stated_expert_ref(const StatedExpertRows& rows, float swiglu_limit);

}  // namespace baleen
