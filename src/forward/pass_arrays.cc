#include "forward/pass_arrays.h"

#include "base/check.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

std::int64_t scale_stride(std::int64_t num_rows) {
  return (num_rows + kScaleRows - 1) / kScaleRows * kScaleRows;
}

}  // namespace

Fp8Rows ActivationArrays::fp8(std::int64_t width, int group) {
  if (type_ != ElementType::kBf16 || group != kActivationGroup) return {};
  Fp8Rows rows{.codes = take<std::uint8_t>(rows_ * width), .scale_stride = scale_stride(rows_)};
  rows.scales = take<float>(width / group * rows.scale_stride);
  return rows;
}

Fp8Rows MessageArrays::fp8(std::int64_t num_rows, std::int64_t width) {
  Fp8Rows rows{.codes = take<std::uint8_t>(num_rows * width), .scale_stride = scale_stride(num_rows)};
  rows.scales = take<float>(width / rows.group * rows.scale_stride);
  return rows;
}

std::int64_t MessageArrays::bytes() const {
  std::int64_t sum = 0;
  for (const Buffer& buffer : buffers_) sum += buffer.size_bytes();
  return sum;
}

View<std::int32_t, 2> rows_from(const View<std::int32_t, 2>& array, std::int64_t first) {
  return {array.data() + first * array.extent(1), {array.extent(0) - first, array.extent(1)}};
}

Fp8Rows rows_from(const Fp8Rows& array, std::int64_t first, std::int64_t width) {
  BALEEN_CHECK(first % kScaleRows == 0);
  if (!array) return array;
  return {.codes = array.codes + first * width,
          .scales = array.scales + first,
          .scale_stride = array.scale_stride,
          .group = array.group};
}

}  // namespace baleen
