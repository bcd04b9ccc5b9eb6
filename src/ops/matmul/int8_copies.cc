#include "ops/matmul/int8_copies.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "numeric/block_scale.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "numeric/int8_group.h"

namespace baleen {
namespace {

std::array<float, 256> e4m3_values() {
  std::array<float, 256> values;
  std::uint8_t code = 0;
  for (float& value : values) value = e4m3_to_float(code++);
  return values;
}

void copy_row(const WeightMatrix& fp8, std::int64_t n, std::byte* codes, std::uint8_t* scales) {
  static const std::array<float, 256> kValues = e4m3_values();
  const std::byte* row = fp8.data + n * fp8.row_bytes();
  const FormatLayout lies = fp8.layout();
  const std::int64_t first_block = n / lies.scale_rows * lies.scales_across(fp8.cols);
  std::array<float, kInt8Group> values;
  std::array<std::int8_t, kInt8Group> integers;
  for (std::int64_t k = 0; k < fp8.cols; k += kInt8Group) {
    const std::int64_t block = first_block + k / lies.scale_cols;
    const float scale =
        fp8.format == WeightFormat::kFp8 ? fp8.block_scales[block] : e8m0_to_float(fp8.group_scales[block]);
    std::transform(row + k, row + k + kInt8Group, values.begin(),
                   [scale](std::byte code) { return kValues[static_cast<std::size_t>(code)] * scale; });
    scales[k / kInt8Group] = quantise_int8_weights(values, integers);
    for (std::int64_t i = 0; i < kInt8Group; ++i) {
      codes[int8_place(k + i)] = static_cast<std::byte>(integers[static_cast<std::size_t>(i)] + kInt8Offset);
    }
  }
}

}  // namespace

const WeightMatrix& Int8Copies::of(const WeightMatrix& weight, ThreadPool& pool) {
  BALEEN_CHECK(is_fp8(weight.format));
  BALEEN_CHECK_EQ(weight.cols % kWeightBlock, 0);
  const std::tuple key(weight.data, weight.rows, weight.cols);
  if (const auto found = copies_.find(key); found != copies_.end()) return found->second.matrix;
  const std::int64_t num_weights = weight.rows * weight.cols;
  Buffer memory(int8_copy_bytes(num_weights));
  std::byte* const codes = memory.data();
  auto* const scales = reinterpret_cast<std::uint8_t*>(codes + num_weights);
  pool.parallel_for(weight.rows, [&](std::int64_t n, int) {
    copy_row(weight, n, codes + n * weight.cols, scales + n * (weight.cols / kInt8Group));
  });
  const WeightMatrix matrix{.format = WeightFormat::kInt8,
                            .rows = weight.rows,
                            .cols = weight.cols,
                            .data = codes,
                            .group_scales = scales};
  return copies_.try_emplace(key, std::move(memory), matrix).first->second.matrix;
}

const WeightMatrix& int8_copy(const WeightMatrix& weight, CpuContext& context) {
  BALEEN_CHECK(context.int8_copies != nullptr);
  return context.int8_copies->of(weight, context.pool);
}

}  // namespace baleen
