/// Weight matrices between their stored formats and float32, one panel of 128 rows at a time: a panel is what
/// shares FP8 scales, so panels are independent and can go to different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "numeric/dtype.h"

namespace baleen {

inline constexpr std::int64_t kPanelRows = 128;

/// A matrix [rows, cols] as it lies in a file. `cols` is a multiple of 128; the spans have the sizes that
/// rows, cols and formats ask for and may be misaligned. No scale for BF16.
struct StoredMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  WeightFormat format = WeightFormat::kBF16;
  DType scale_dtype = DType::kF8E8M0;
  std::span<const std::byte> weight;
  std::span<const std::byte> scale;

  [[nodiscard]] std::int64_t num_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  [[nodiscard]] std::int64_t panel_rows(std::int64_t panel) const;
};

/// The same, owned and writable, always with E8M0 scales. Reused from matrix to matrix to save allocations.
struct EncodedMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  WeightFormat format = WeightFormat::kBF16;
  std::vector<std::byte> weight;
  std::vector<std::byte> scale;

  /// Sets the geometry and the sizes; the contents are then unspecified.
  void reset(std::int64_t num_rows, std::int64_t num_cols, WeightFormat to);
  [[nodiscard]] StoredMatrix view() const;
};

/// values [panel rows, cols] <- codes times scales, one float32 product each: exact with power-of-two scales.
void decode_panel(const StoredMatrix& matrix, std::int64_t panel, std::span<float> values);

/// Rounds one panel to `matrix.format`, with the released rule for scales. Threads may encode different
/// panels.
void encode_panel(EncodedMatrix& matrix, std::int64_t panel, std::span<const float> values);

/// FP4 with E8M0 scales to FP8 as the released converter does: with M the largest of a 128x128 block's
/// scales, the block's scale is M/2^6 and every value is multiplied by its own scale over that. Exact as long
/// as no scale of the block is below M/2^14.
void recode_panel(const StoredMatrix& fp4, std::int64_t panel, EncodedMatrix& fp8);

}  // namespace baleen
