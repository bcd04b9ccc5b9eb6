#include <algorithm>
#include <array>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "numeric/int8_group.h"
#include "ops/matmul/matmul.h"

#include <cstring>

namespace baleen {
namespace {

/// Without the factor that all outputs share.
float weight_at(const WeightMatrix& weight, std::int64_t n, std::int64_t k) {
  const std::byte* row = weight.data + n * weight.row_bytes();
  switch (weight.format) {
    case WeightFormat::kF32: {
      float value;
      std::memcpy(&value, row + 4 * k, sizeof(value));
      return value;
    }
    case WeightFormat::kBF16: {
      Bf16Bits bits;
      std::memcpy(&bits, row + 2 * k, sizeof(bits));
      return bf16_to_float(bits);
    }
    case WeightFormat::kFp8:
      return e4m3_to_float(static_cast<std::uint8_t>(row[k])) *
             weight.block_scales[n / kWeightBlock * ((weight.cols + kWeightBlock - 1) / kWeightBlock) +
                                 k / kWeightBlock];
    case WeightFormat::kFp8x32: {
      const FormatLayout lies = weight.layout();
      const std::int64_t block = n / lies.scale_rows * lies.scales_across(weight.cols) + k / lies.scale_cols;
      return e4m3_to_float(static_cast<std::uint8_t>(row[k])) * e8m0_to_float(weight.group_scales[block]);
    }
    case WeightFormat::kFp4: {
      const auto pair = static_cast<std::uint8_t>(row[k / 2]);
      const auto code = static_cast<std::uint8_t>(k % 2 == 0 ? pair : pair >> 4);
      return e2m1_to_float(code) * e8m0_to_float(weight.group_scales[n * (weight.cols / 32) + k / 32]);
    }
    case WeightFormat::kNvfp4: {
      const auto pair = static_cast<std::uint8_t>(row[k / 2]);
      const auto code = static_cast<std::uint8_t>(k % 2 == 0 ? pair : pair >> 4);
      return e2m1_to_float(code) * e4m3_to_float(weight.group_scales[n * (weight.cols / 16) + k / 16]);
    }
    case WeightFormat::kQ8:
      return static_cast<float>(static_cast<std::int8_t>(row[k])) *
             weight.block_scales[n * (weight.cols / 32) + k / 32];
    case WeightFormat::kInt8: {
      const int value = static_cast<std::uint8_t>(row[int8_place(k)]) - kInt8Offset;
      return static_cast<float>(value) * e8m0_to_float(weight.group_scales[n * (weight.cols / 32) + k / 32]);
    }
  }
  return 0.0F;
}

void simulate_int8(std::span<float> values) {
  std::array<std::int8_t, kInt8Group> codes;
  for (std::size_t begin = 0; begin < values.size(); begin += codes.size()) {
    const auto group = values.subspan(begin, codes.size());
    const float scale = quantise_int8_activations(group, codes);
    std::ranges::transform(codes, group.begin(),
                           [scale](std::int8_t code) { return static_cast<float>(code) * scale; });
  }
}

}  // namespace

void matmul_ref(const WeightMatrix& weight, ConstActivations<2> x, ActivationRounding rounding,
                bool round_bf16_output, Activations<2> y) {
  std::vector<std::vector<float>> inputs;
  for (std::int64_t m = 0; m < x.extent(0); ++m) {
    std::vector<float>& row = inputs.emplace_back(x.row(m).begin(), x.row(m).end());
    if (const std::int64_t group = fp8_group(rounding); group > 0) simulate_fp8(row, static_cast<int>(group));
    if (rounding == ActivationRounding::kBf16) std::ranges::transform(row, row.begin(), round_bf16);
    if (rounding == ActivationRounding::kInt8) simulate_int8(row);
  }
  std::vector<float> weights(static_cast<std::size_t>(weight.cols));  // decoded once for all rows
  for (std::int64_t n = 0; n < weight.rows; ++n) {
    for (std::int64_t k = 0; k < weight.cols; ++k)
      weights[static_cast<std::size_t>(k)] = weight_at(weight, n, k);
    for (std::int64_t m = 0; m < x.extent(0); ++m) {
      const std::vector<float>& row = inputs[static_cast<std::size_t>(m)];
      double sum = 0.0;
      for (std::size_t k = 0; k < weights.size(); ++k) sum += static_cast<double>(row[k]) * weights[k];
      const float value = static_cast<float>(sum) * weight.output_factor();
      y(m, n) = round_bf16_output ? round_bf16(value) : value;
    }
  }
}

}  // namespace baleen
