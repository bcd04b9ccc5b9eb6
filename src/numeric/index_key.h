/// Cache rows of indexer keys, after norm, rotation and Hadamard transform. In `released` precision: 64 bytes
/// of packed e2m1 (low nibble = even dimension) and one e8m0 scale per 32 dimensions, 68 bytes for 128
/// dimensions. A page holds the codes of all its rows first, the scales after them. `bf16` and `exact` rows
/// are plain arrays. (source: cache specification 2.4; lossless against the released rounding)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "numeric/block_scale.h"
#include "numeric/dtype.h"

namespace baleen {

struct IndexKeyFormat {
  int dim = 128;  ///< a multiple of 32
  Precision precision = Precision::kReleased;

  [[nodiscard]] constexpr std::int64_t data_bytes() const {
    switch (precision) {
      case Precision::kExact:
        return std::int64_t{4} * dim;
      case Precision::kBf16:
        return std::int64_t{2} * dim;
      case Precision::kReleased:
        return dim / 2;
    }
    return 0;
  }
  [[nodiscard]] constexpr std::int64_t scale_bytes() const {
    return precision == Precision::kReleased ? dim / kIndexerGroup : 0;
  }
  [[nodiscard]] constexpr std::int64_t row_bytes() const { return data_bytes() + scale_bytes(); }
  [[nodiscard]] constexpr std::int64_t page_stride_bytes(std::int64_t rows) const {
    return (rows * row_bytes() + 63) / 64 * 64;
  }
};

/// One layer's keys: pages of `rows_per_page` rows at `base + page * page_stride_bytes`.
struct IndexKeyPool {
  std::byte* base = nullptr;
  std::int64_t page_stride_bytes = 0;
  int rows_per_page = 0;
  IndexKeyFormat format;
  std::int64_t num_pages = 0;  ///< 0: not known

  [[nodiscard]] std::byte* page(std::int64_t page_idx) const { return base + page_idx * page_stride_bytes; }
};

/// Writes `values` (dim of them) as row `row`; `released` quantises to FP4 in blocks of 32.
void encode_index_key(const IndexKeyFormat& format, std::byte* page, int rows_per_page, int row,
                      std::span<const float> values);
void decode_index_key(const IndexKeyFormat& format, const std::byte* page, int rows_per_page, int row,
                      std::span<float> values);

}  // namespace baleen
