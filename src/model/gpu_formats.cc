#include "model/gpu_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "model/tensor_table.h"
#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

float weight_at(const WeightMatrix& matrix, std::int64_t row, std::int64_t col) {
  const std::byte* const at = matrix.data + row * matrix.row_bytes();
  if (matrix.format == WeightFormat::kQ8) {
    return static_cast<float>(static_cast<std::int8_t>(at[col])) *
           matrix.block_scales[row * (matrix.cols / 32) + col / 32];
  }
  if (matrix.format == WeightFormat::kF32) {
    float value = 0;
    std::memcpy(&value, at + col * std::int64_t{sizeof(value)}, sizeof(value));
    return value;
  }
  BALEEN_CHECK(matrix.format == WeightFormat::kBF16);
  Bf16Bits bits = 0;
  std::memcpy(&bits, at + col * std::int64_t{sizeof(bits)}, sizeof(bits));
  return bf16_to_float(bits);
}

std::span<const std::byte> bytes_of(const std::byte* data, std::int64_t size) {
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

GpuFormats::GpuFormats(const WeightTree& tree, ThreadPool& pool) : tree_(tree) {
  if (tree_.table == nullptr) return;
  for (const TensorSpec& spec : *tree_.table) {
    if (!spec.is_matrix()) continue;
    WeightMatrix& matrix =
        *std::get<WeightMatrix*>(spec.place.in(tree_, spec.block, std::max<std::int64_t>(0, spec.expert)));
    const bool is_taken = is_fp8(matrix.format) || matrix.format == WeightFormat::kBF16;
    const bool has_small_groups = matrix.activation_group != kActivationGroup;
    if (spec.storage == Storage::kExpert) {
      const bool is_nvfp4 = matrix.format == WeightFormat::kNvfp4;
      if (is_taken || matrix.format == WeightFormat::kFp4 || (is_nvfp4 && !has_small_groups)) continue;
      fail(
          "{}: routed experts in {}, which GPUs do not compute{}; ‹device› cpu does, and `baleen convert IN "
          "OUT`{} writes a checkpoint for GPUs and says what of the values is lost",
          spec.name, weight_format_name(matrix.format), is_nvfp4 ? " of DeepSeek-V4.1" : "",
          is_nvfp4 ? ", to FP4 or to FP8," : "");
    }
    const auto& routed = tree_.block(std::max<std::int64_t>(0, spec.block)).moe.routed;
    const bool beside_codes = spec.role == TensorRole::kSharedExpert && !routed.empty() &&
                              routed.front().w1.format != WeightFormat::kBF16;
    if (is_taken && !(beside_codes && !is_fp8(matrix.format))) continue;
    if (has_small_groups) {
      fail(
          "{}: {} beside experts in codes, which GPUs do not compute of DeepSeek-V4.1; ‹device› cpu does, "
          "and `baleen convert IN OUT`, with dense matrices in FP8, writes a checkpoint for GPUs and says "
          "what of the values is lost",
          spec.name, weight_format_name(matrix.format));
    }
    bring_to_fp8(matrix, spec.name, pool);
  }
}

void GpuFormats::bring_to_fp8(WeightMatrix& matrix, std::string_view name, ThreadPool& pool) {
  const AcquiredBytes weights(tree_.made.get(), bytes_of(matrix.data, matrix.size_bytes()));
  const AcquiredBytes their_scales(tree_.made.get(), bytes_of(matrix.scales(), matrix.scale_bytes()));
  WeightMatrix fp8{.format = WeightFormat::kFp8,
                   .rows = matrix.rows,
                   .cols = matrix.cols,
                   .activation_group = matrix.activation_group};
  std::vector<std::byte>& codes = codes_.emplace_back(static_cast<std::size_t>(fp8.size_bytes()));
  std::vector<float>& scales = scales_.emplace_back(static_cast<std::size_t>(fp8.num_scales()));
  const std::int64_t across = fp8.layout().scales_across(fp8.cols);
  struct BlockLoss {
    double change = 0, value = 0, largest_change = 0, largest_value = 0;
  };
  std::vector<BlockLoss> losses(scales.size());
  pool.parallel_for(std::ssize(scales), [&](std::int64_t block, int /*thread*/) {
    const std::int64_t first_row = block / across * kWeightBlock, first_col = block % across * kWeightBlock;
    const std::int64_t end_row = std::min(matrix.rows, first_row + kWeightBlock);
    const std::int64_t end_col = std::min(matrix.cols, first_col + kWeightBlock);
    float amax = 0;
    for (std::int64_t row = first_row; row < end_row; ++row)
      for (std::int64_t col = first_col; col < end_col; ++col) {
        const float value = std::fabs(weight_at(matrix, row, col));
        amax = value <= amax ? amax : value;  // NaN is kept
      }
    const float scale = e8m0_to_float(fp8_scale_code(amax));
    scales[static_cast<std::size_t>(block)] = scale;
    BlockLoss& loss = losses[static_cast<std::size_t>(block)];
    loss.largest_value = static_cast<double>(amax);
    for (std::int64_t row = first_row; row < end_row; ++row) {
      for (std::int64_t col = first_col; col < end_col; ++col) {
        const float value = weight_at(matrix, row, col);
        const std::uint8_t code = float_to_e4m3(value / scale);
        codes[static_cast<std::size_t>(row * matrix.cols + col)] = std::byte{code};
        const double change =
            std::fabs(static_cast<double>(value) - static_cast<double>(e4m3_to_float(code) * scale));
        loss.change += change;
        loss.value += std::fabs(static_cast<double>(value));
        loss.largest_change = std::max(loss.largest_change, change);
      }
    }
  });
  BlockLoss sum;
  for (const BlockLoss& loss : losses) {
    sum.change += loss.change;
    sum.value += loss.value;
    sum.largest_change = std::max(sum.largest_change, loss.largest_change);
    sum.largest_value = std::max(sum.largest_value, loss.largest_value);
  }
  if (!std::isfinite(sum.value)) fail("{}: holds weights that are not finite; is the file damaged?", name);
  ++num_matrices_;
  num_exact_ += sum.change == 0 ? 1 : 0;
  loss_.change += sum.change;
  loss_.value += sum.value;
  if (sum.largest_value > 0) loss_.largest = std::max(loss_.largest, sum.largest_change / sum.largest_value);
  fp8.data = codes.data();
  fp8.block_scales = scales.data();
  matrix = fp8;
}

std::string GpuFormats::text() const {
  if (num_matrices_ == 0) return "";
  if (num_exact_ == num_matrices_)
    return fmt::format("{} dense matrices are brought to FP8 for the GPU, exactly", num_matrices_);
  return fmt::format(
      "{} dense matrices are brought to FP8 for the GPU, {} of them exactly: mean change {:.2e} (sum of "
      "changes "
      "over sum of values), largest {:.2e} of its matrix's largest value",
      num_matrices_, num_exact_, loss_.change / loss_.value, loss_.largest);
}

}  // namespace baleen
