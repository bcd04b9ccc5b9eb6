/// Cache rows of latent KV vectors: one vector of `nope + rope` values per position or compressed entry, key
/// and value for all heads. In `released` precision it is the 584-byte row of the field's kernels (448 + 64):
///
///     page of B rows:  B x [ nope e4m3 codes | rope x bf16 ]  then  B x [ e8m0 scale per 64 codes, padded to 8 ]
///     nope of row t at t * 576,  rope at t * 576 + 448,  scales at B * 576 + t * 8;  used bytes B * 584
///
/// The page stride is the used bytes rounded up to a multiple of the data stride (576), so that consecutive
/// pages are one strided array of rows. It loses nothing against the released code's BF16 buffers. `bf16` and
/// `exact` rows are plain arrays of BF16 and float32. (source: cache specification 2.1, 2.3)
///
/// The rows of DeepSeek-V3.2 are a second layout, 656 bytes for 512 + 64, that no model here has: the
/// reference of attention and its CUDA kernels read it, so that they can be held against the field's on the
/// same rows.
///
///     row: [ nope e4m3 codes | float32 scale per 128 codes | rope x bf16 ]; page of B rows: B x that
///
/// Its key is the whole row, its value the nope part alone. Scales are any numbers; values are rounded to
/// BF16.
///
/// DeepSeek-V4.1's rows are quantised after the rotation, over all of their values (numeric/grouped_row.h):
/// 528 bytes for a position, 288 for an entry. A page of B rows is B x that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "numeric/block_scale.h"
#include "numeric/dtype.h"
#include "numeric/grouped_row.h"

namespace baleen {

enum class LatentLayout : std::uint8_t { kV4, kV32 };

inline constexpr int kV32Group = 128;  ///< values that share a scale in V3.2's rows

struct LatentFormat {
  int nope = 0;  ///< leading values, a multiple of 64 (V3.2: 128)
  int rope = 0;  ///< trailing, rotated values; even
  Precision precision = Precision::kReleased;
  LatentLayout layout = LatentLayout::kV4;  ///< V3.2's in `released` alone
  /// What rows in `released` are instead, of width() values; `nope` and `rope` then say which are rotated.
  std::optional<GroupedRow> grouped{};

  [[nodiscard]] constexpr int width() const { return nope + rope; }
  [[nodiscard]] constexpr bool has_groups() const {
    return grouped.has_value() && precision == Precision::kReleased;
  }
  /// Values of a row that are quantised.
  [[nodiscard]] constexpr int quantised_values() const {
    if (precision != Precision::kReleased) return 0;
    return has_groups() ? width() : nope;
  }
  /// Leading values of the row that are summed up; the key is all of them.
  [[nodiscard]] constexpr int value_width() const { return layout == LatentLayout::kV32 ? nope : width(); }
  [[nodiscard]] constexpr int num_scales() const { return nope / kLatentGroup; }
  /// Bytes of a row's values, without its scales: 576 for 448 + 64 in `released`. V3.2's and grouped ones:
  /// with them.
  [[nodiscard]] constexpr std::int64_t data_bytes() const {
    if (has_groups()) return grouped->row_bytes();
    switch (precision) {
      case Precision::kExact:
        return std::int64_t{4} * width();
      case Precision::kBf16:
        return std::int64_t{2} * width();
      case Precision::kReleased:
        return nope + std::int64_t{2} * rope +
               (layout == LatentLayout::kV32 ? std::int64_t{4} * (nope / kV32Group) : 0);
    }
    return 0;
  }
  [[nodiscard]] constexpr std::int64_t scale_bytes() const {
    const bool apart = precision == Precision::kReleased && layout == LatentLayout::kV4 && !has_groups();
    return apart ? (num_scales() + 7) / 8 * 8 : 0;
  }
  /// 584 for 448 + 64 in `released`.
  [[nodiscard]] constexpr std::int64_t row_bytes() const { return data_bytes() + scale_bytes(); }
  [[nodiscard]] constexpr std::int64_t page_stride_bytes(std::int64_t rows) const {
    return (rows * row_bytes() + data_bytes() - 1) / data_bytes() * data_bytes();
  }
};

/// One layer's rows: pages of `rows_per_page` rows at `base + page * page_stride_bytes`.
struct LatentPool {
  std::byte* base = nullptr;
  std::int64_t page_stride_bytes = 0;
  int rows_per_page = 0;
  LatentFormat format;
  std::int64_t num_pages = 0;  ///< 0: not known

  [[nodiscard]] std::byte* page(std::int64_t page_idx) const { return base + page_idx * page_stride_bytes; }
};

/// Writes `values` (width() of them, already normalised and rotated) as row `row` of the page of
/// `rows_per_page` rows at `page`. `released`: the leading part is quantised to FP8 in blocks of 64 (V3.2: of
/// 128, with scale max(amax, 1e-4) / 448), the rest rounded to BF16; all values where rows have groups.
void encode_latent_row(const LatentFormat& format, std::byte* page, int rows_per_page, int row,
                       std::span<const float> values);

/// Reads it back: exactly what the released code holds as BF16.
void decode_latent_row(const LatentFormat& format, const std::byte* page, int rows_per_page, int row,
                       std::span<float> values);

}  // namespace baleen
