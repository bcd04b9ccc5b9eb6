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

/// Codes and scale of one group of e2m1, two codes a byte.
std::uint8_t quantise_entry_group(std::span<const float> values, std::span<std::byte> codes) {
  const std::uint8_t code = entry_scale_code(values);
  const float scale = e4m3_to_float(code);
  std::ranges::fill(codes, std::byte{0});
  if (std::isnan(scale)) return code;
  for (std::size_t i = 0; i < values.size(); ++i)
    codes[i / 2] |= std::byte{float_to_e2m1(values[i] / scale)} << (i % 2 == 0 ? 0 : 4);
  return code;
}

float scale_of(GroupedCodes codes, std::byte code) {
  const auto value = std::to_integer<std::uint8_t>(code);
  return codes == GroupedCodes::kFp8 ? e8m0_to_float(value) : e4m3_to_float(value);
}

}  // namespace

std::uint8_t entry_scale_code(std::span<const float> values) {
  float amax = kE2m1Max * 0x1p-9F;
  for (const float value : values) {
    if (std::isnan(value)) return float_to_e4m3(value);
    amax = std::fmax(amax, std::fabs(value));
  }
  return float_to_e4m3(amax / kE2m1Max);
}

void encode_grouped_row(const GroupedRow& format, std::span<const float> values, std::span<std::byte> row) {
  BALEEN_CHECK(std::ssize(values) == format.width && std::ssize(row) == format.row_bytes() &&
               format.width % format.group() == 0);
  const auto group = static_cast<std::size_t>(format.group());
  const auto codes_of_group = static_cast<std::size_t>(format.code_bytes() / format.num_scales());
  for (std::size_t i = 0; i < values.size() / group; ++i) {
    const auto of_group = values.subspan(i * group, group);
    const std::span<std::byte> codes = row.subspan(i * codes_of_group, codes_of_group);
    row[static_cast<std::size_t>(format.code_bytes()) + i] = std::byte{
        format.codes == GroupedCodes::kFp8
            ? quantise_fp8_block(of_group, {reinterpret_cast<std::uint8_t*>(codes.data()), codes.size()})
            : quantise_entry_group(of_group, codes)};
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
