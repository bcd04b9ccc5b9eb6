/// Rows of codes with a scale for every group of values, over all of their width: cache rows of
/// DeepSeek-V4.1, whose rotated dims are quantised with the others.
///
///     row: [ codes | one scale a group ]
///
///     positions   e4m3 codes, e8m0 scales of 32 values: 2^ceil(log2(max(amax, 1e-4) / 448))
///     entries     e2m1 codes, two a byte (low nibble first), e4m3 scales of 16: max(amax, 6 * 2^-9) / 6
///
/// 528 and 288 bytes for 512 values. A code is the nearest to value / scale, ties to even.
/// (source: releases specification 2.4, 2.5, 9.C)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baleen {

enum class GroupedCodes : std::uint8_t { kFp8, kFp4 };

struct GroupedRow {
  GroupedCodes codes = GroupedCodes::kFp8;
  int width = 0;  ///< a multiple of the group

  [[nodiscard]] constexpr int group() const { return codes == GroupedCodes::kFp8 ? 32 : 16; }
  [[nodiscard]] constexpr int num_scales() const { return width / group(); }
  [[nodiscard]] constexpr std::int64_t code_bytes() const {
    return codes == GroupedCodes::kFp8 ? width : width / 2;
  }
  [[nodiscard]] constexpr std::int64_t row_bytes() const { return code_bytes() + num_scales(); }

  bool operator==(const GroupedRow&) const = default;
};

/// `values`: `width` numbers, already normalised and rotated; `row`: `row_bytes()` bytes. Infinities
/// saturate. A NaN is a NaN among e4m3 codes; among e2m1 codes, which have none, it is its group's scale.
void encode_grouped_row(const GroupedRow& format, std::span<const float> values, std::span<std::byte> row);

/// e4m3 code of the scale of a group of entries' values.
[[nodiscard]] std::uint8_t entry_scale_code(std::span<const float> values);

/// Reads it back: code times scale, which is exact in BF16.
void decode_grouped_row(const GroupedRow& format, std::span<const std::byte> row, std::span<float> values);

}  // namespace baleen
