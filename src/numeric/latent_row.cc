#include "numeric/latent_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/bf16_array.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

void encode_v32(const LatentFormat& format, std::byte* row, std::span<const float> values) {
  constexpr float kSmallestMaximum = 1e-4F, kLargestE4m3 = 448.0F;
  auto* codes = reinterpret_cast<std::uint8_t*>(row);
  std::byte* scales = row + format.nope;
  for (int begin = 0; begin < format.nope; begin += kV32Group, scales += sizeof(float)) {
    const auto block = values.subspan(static_cast<std::size_t>(begin), kV32Group);
    float maximum = kSmallestMaximum;
    for (const float value : block) maximum = std::max(maximum, std::abs(value));
    const float scale = maximum / kLargestE4m3;
    for (const float value : block) *codes++ = float_to_e4m3(value / scale);
    std::memcpy(scales, &scale, sizeof(scale));
  }
  store_bf16(scales, values.subspan(static_cast<std::size_t>(format.nope)));
}

void decode_v32(const LatentFormat& format, const std::byte* row, std::span<float> values) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
  const std::byte* scales = row + format.nope;
  for (int begin = 0; begin < format.nope; begin += kV32Group, scales += sizeof(float)) {
    float scale = 0;
    std::memcpy(&scale, scales, sizeof(scale));
    for (float& value : values.subspan(static_cast<std::size_t>(begin), kV32Group)) {
      value = round_bf16(e4m3_to_float(*codes++) * scale);
    }
  }
  load_bf16(scales, values.subspan(static_cast<std::size_t>(format.nope)));
}

}  // namespace

void encode_latent_row(const LatentFormat& format, std::byte* page, int rows_per_page, int row,
                       std::span<const float> values) {
  BALEEN_DCHECK(static_cast<int>(values.size()) == format.width());
  std::byte* data = page + row * format.data_bytes();
  switch (format.precision) {
    case Precision::kExact:
      std::memcpy(data, values.data(), values.size_bytes());
      return;
    case Precision::kBf16:
      store_bf16(data, values);
      return;
    case Precision::kReleased:
      break;
  }
  if (format.has_groups()) {
    return encode_grouped_row(*format.grouped, values, {data, static_cast<std::size_t>(format.data_bytes())});
  }
  if (format.layout == LatentLayout::kV32) return encode_v32(format, data, values);
  auto* codes = reinterpret_cast<std::uint8_t*>(data);
  auto* scales = reinterpret_cast<std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                 row * format.scale_bytes());
  for (int block = 0; block < format.num_scales(); ++block) {
    const auto begin = static_cast<std::size_t>(block) * kLatentGroup;
    scales[block] = quantise_fp8_block(values.subspan(begin, kLatentGroup), {codes + begin, kLatentGroup});
  }
  store_bf16(data + format.nope, values.subspan(static_cast<std::size_t>(format.nope)));
}

void decode_latent_row(const LatentFormat& format, const std::byte* page, int rows_per_page, int row,
                       std::span<float> values) {
  BALEEN_DCHECK(static_cast<int>(values.size()) == format.width());
  const std::byte* data = page + row * format.data_bytes();
  switch (format.precision) {
    case Precision::kExact:
      std::memcpy(values.data(), data, values.size_bytes());
      return;
    case Precision::kBf16:
      load_bf16(data, values);
      return;
    case Precision::kReleased:
      break;
  }
  if (format.has_groups()) {
    return decode_grouped_row(*format.grouped, {data, static_cast<std::size_t>(format.data_bytes())}, values);
  }
  if (format.layout == LatentLayout::kV32) return decode_v32(format, data, values);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(data);
  const auto* scales = reinterpret_cast<const std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                             row * format.scale_bytes());
  for (int i = 0; i < format.nope; ++i) {
    values[static_cast<std::size_t>(i)] = e4m3_to_float(codes[i]) * e8m0_to_float(scales[i / kLatentGroup]);
  }
  load_bf16(data + format.nope, values.subspan(static_cast<std::size_t>(format.nope)));
}

}  // namespace baleen
