#include "numeric/grouped_row.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

std::uint8_t scale_code(GroupedCodes codes, std::span<const float> values) {
  float amax = 0.0F;
  for (const float value : values) amax = std::fmax(amax, std::fabs(value));
  if (codes == GroupedCodes::kFp8) return fp8_scale_code(amax);
  return float_to_e4m3(std::fmax(amax, kE2m1Max * 0x1p-9F) / kE2m1Max);
}

float scale_of(GroupedCodes codes, std::byte code) {
  const auto value = std::to_integer<std::uint8_t>(code);
  return codes == GroupedCodes::kFp8 ? e8m0_to_float(value) : e4m3_to_float(value);
}

}  // namespace

void encode_grouped_row(const GroupedRow& format, std::span<const float> values, std::span<std::byte> row) {
  BALEEN_CHECK(std::ssize(values) == format.width && std::ssize(row) == format.row_bytes() &&
               format.width % format.group() == 0);
  const auto group = static_cast<std::size_t>(format.group());
  const std::span<std::byte> scales = row.subspan(static_cast<std::size_t>(format.code_bytes()));
  std::ranges::fill(row.first(static_cast<std::size_t>(format.code_bytes())), std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::byte& scale = scales[i / group];
    if (i % group == 0) scale = std::byte{scale_code(format.codes, values.subspan(i, group))};
    const float scaled = values[i] / scale_of(format.codes, scale);
    if (format.codes == GroupedCodes::kFp8) {
      row[i] = std::byte{float_to_e4m3(scaled)};
    } else {
      row[i / 2] |= std::byte{float_to_e2m1(scaled)} << (i % 2 == 0 ? 0 : 4);
    }
  }
}

void decode_grouped_row(const GroupedRow& format, std::span<const std::byte> row, std::span<float> values) {
  BALEEN_CHECK(std::ssize(values) == format.width && std::ssize(row) == format.row_bytes());
  const auto group = static_cast<std::size_t>(format.group());
  const std::span<const std::byte> scales = row.subspan(static_cast<std::size_t>(format.code_bytes()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float code = format.codes == GroupedCodes::kFp8
                           ? e4m3_to_float(std::to_integer<std::uint8_t>(row[i]))
                           : e2m1_to_float(std::to_integer<std::uint8_t>(row[i / 2] >> (i % 2 == 0 ? 0 : 4)));
    values[i] = code * scale_of(format.codes, scales[i / group]);
  }
}

}  // namespace baleen
