#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_sums.h"

namespace baleen {
namespace {

constexpr std::int64_t kSlice = kActivationGroup;
constexpr std::int64_t kGroup = kIndexerGroup;
constexpr std::int64_t kGroups = kSlice / kGroup;

float stated_exp_ref(float x) {
  // Comparisons that let NaN become a bound.
  const float bounded = x > StatedExp::kMin ? (x < StatedExp::kMax ? x : StatedExp::kMax) : StatedExp::kMin;
  const float n = std::fma(bounded, StatedExp::kLog2E, StatedExp::kRounder) - StatedExp::kRounder;
  const float r = std::fma(-n, StatedExp::kLn2Lower, std::fma(-n, StatedExp::kLn2Upper, bounded));
  float p = StatedExp::kPolynomial[0];
  for (std::size_t i = 1; i < std::size(StatedExp::kPolynomial); ++i)
    p = std::fma(p, r, StatedExp::kPolynomial[i]);
  return p * std::ldexp(1.0F, static_cast<int>(n));
}

bool is_nan_code(std::uint8_t code) { return (code & 0x7Fu) == 0x7Fu; }

}  // namespace

float stated_swiglu_ref(float gate, float up, float limit, float weight) {
  const float most = limit > 0 ? limit : std::numeric_limits<float>::infinity();
  const float g = gate > most ? most : gate;
  const float below = up > most ? most : up;
  const float v = below < -most ? -most : below;
  const float quotient = g / (1.0F + stated_exp_ref(-g));
  const float activated = quotient * v;
  return weight * activated;
}

void stated_product_ref(const WeightMatrix& weight, std::span<const std::uint8_t> codes,
                        std::span<const float> scales, bool rounds, std::span<float> y) {
  BALEEN_CHECK(weight.format == WeightFormat::kFp4);
  const bool of_groups = weight.activation_group == kGroup;
  BALEEN_CHECK(of_groups || weight.activation_group == kSlice);
  const std::int64_t num_inputs = weight.cols, num_groups = num_inputs / kGroup;
  for (std::int64_t output = 0; output < weight.rows; ++output) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(weight.data) + output * weight.row_bytes();
    const std::uint8_t* row_scales = weight.group_scales + output * num_groups;
    float sum = 0.0F;
    for (std::int64_t slice = 0; slice < num_inputs / kSlice; ++slice) {
      std::array<float, kGroups> products{}, factors{};
      for (std::int64_t g = 0; g < kGroups; ++g) {
        const std::int64_t own = of_groups ? slice * kGroups + g : slice;
        float& scale = factors[static_cast<std::size_t>(of_groups ? g : 0)];
        if (of_groups || g == 0) scale = scales[static_cast<std::size_t>(own)] * 0x1p-10F;
        std::int64_t exact = 0;
        for (std::int64_t k = slice * kSlice + g * kGroup; k < slice * kSlice + (g + 1) * kGroup; ++k) {
          const std::uint8_t code = codes[static_cast<std::size_t>(k)];
          if (is_nan_code(code)) {
            scale = std::numeric_limits<float>::quiet_NaN();
            continue;
          }
          const auto nibble = static_cast<std::uint8_t>(row[k / 2] >> (k % 2 * 4) & 15);
          exact += static_cast<std::int64_t>(2 * e2m1_to_float(nibble)) *
                   static_cast<std::int64_t>(0x1p9F * e4m3_to_float(code));
        }
        products[static_cast<std::size_t>(g)] =
            static_cast<float>(exact) * e8m0_to_float(row_scales[slice * kGroups + g]);
      }
      if (of_groups)
        for (std::size_t g = 0; g < products.size(); ++g) products[g] *= factors[g];
      const float of_slice = (products[0] + products[2]) + (products[1] + products[3]);
      sum = of_groups ? of_slice + sum : std::fma(of_slice, factors[0], sum);
    }
    y[static_cast<std::size_t>(output)] = rounds ? round_bf16(sum) : sum;
  }
}

void stated_expert_ref(const StatedExpertRows& rows, float swiglu_limit) {
  const ExpertWeights& expert = *rows.expert;
  const std::int64_t width = expert.w1.cols, inner_width = expert.w1.rows;
  const auto group = static_cast<std::size_t>(expert.w1.activation_group);
  BALEEN_CHECK_EQ(rows.x.group, expert.w1.activation_group);
  std::vector<float> scales(static_cast<std::size_t>(width) / group),
      gate(static_cast<std::size_t>(inner_width)), up(gate.size()),
      y(static_cast<std::size_t>(expert.w2.rows));
  std::vector<std::uint8_t> inner_codes(gate.size());
  std::vector<float> inner_scales(static_cast<std::size_t>(inner_width) / group);
  for (std::int64_t i = 0; i < rows.num_rows; ++i) {
    const std::int64_t row = rows.row_index[i];
    const std::span codes(rows.x.codes + row * width, static_cast<std::size_t>(width));
    for (std::size_t place = 0; place < scales.size(); ++place)
      scales[place] = rows.x.scales[static_cast<std::int64_t>(place) * rows.x.scale_stride + row];
    stated_product_ref(expert.w1, codes, scales, true, gate);
    stated_product_ref(expert.w3, codes, scales, true, up);
    for (std::size_t k = 0; k < gate.size(); ++k)
      gate[k] = round_bf16(stated_swiglu_ref(gate[k], up[k], swiglu_limit, rows.weights[i]));
    for (std::size_t place = 0; place < inner_scales.size(); ++place) {
      const std::span values(gate.data() + place * group, group);
      inner_scales[place] =
          e8m0_to_float(quantise_fp8_block(values, std::span(inner_codes).subspan(place * group, group)));
    }
    stated_product_ref(expert.w2, inner_codes, inner_scales, true, y);
    for (std::size_t k = 0; k < y.size(); ++k)
      rows.y[i * expert.w2.rows + static_cast<std::int64_t>(k)] = float_to_bf16(y[k]);
  }
}

}  // namespace baleen
