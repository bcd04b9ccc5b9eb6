/// Weight matrices between their stored formats and float32, one panel of 128 rows at a time: a panel is what
/// shares FP8 scales, so panels are independent and can go to different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/tensor_table.h"
#include "numeric/dtype.h"

namespace baleen {

inline constexpr std::int64_t kPanelRows = 128;

/// A matrix [rows, cols] as it lies in a file. `cols` is a multiple of 128; the spans have the sizes that
/// rows, cols and formats ask for and may be misaligned. No scale for BF16; one of the whole matrix for
/// NVFP4.
struct StoredMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  WeightFormat format = WeightFormat::kBF16;
  DType scale_dtype = DType::kF8E8M0;
  std::span<const std::byte> weight;
  std::span<const std::byte> scale;
  std::span<const std::byte> matrix_scale = {};

  [[nodiscard]] std::int64_t num_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  [[nodiscard]] std::int64_t panel_rows(std::int64_t panel) const;
};

/// The same, owned and writable, FP8 with E8M0 scales. Reused from matrix to matrix to save allocations.
struct EncodedMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  WeightFormat format = WeightFormat::kBF16;
  std::vector<std::byte> weight;
  std::vector<std::byte> scale;
  std::vector<std::byte> matrix_scale;

  /// Sets the geometry and the sizes, and of NVFP4 the scale of the matrix to 2^-8: weights up to 10.5 have
  /// scales. Other contents are then unspecified.
  void reset(std::int64_t num_rows, std::int64_t num_cols, WeightFormat to);
  void set_matrix_scale(float value);
  [[nodiscard]] StoredMatrix view() const;
  /// The arrays beside the weight that a file has, in the order of `stored_tensors`.
  [[nodiscard]] std::vector<std::span<const std::byte>> scales() const;
};

/// The arrays of `tensor`, whose scales have been checked (weight_checks.h).
[[nodiscard]] StoredMatrix stored_matrix(const Checkpoint& checkpoint, const TensorSpec& tensor,
                                         const StorageFormats& formats);

/// values [panel rows, cols] <- codes times scales, one float32 product each: exact with power-of-two scales.
void decode_panel(const StoredMatrix& matrix, std::int64_t panel, std::span<float> values);

/// Rounds one panel to `matrix.format`, with the released rule for scales. Threads may encode different
/// panels.
void encode_panel(EncodedMatrix& matrix, std::int64_t panel, std::span<const float> values);

/// FP4 with E8M0 scales to NVFP4 as ModelOpt casts it: codes stay, the scale of the matrix is 2^m, and those
/// of both halves of a group 2^(k - m), where 2^k is the group's. Exact where no k is below m - 9 nor above m
/// + 8.
void recode_to_nvfp4(const StoredMatrix& fp4, std::int64_t panel, int m, EncodedMatrix& nvfp4);

/// m of ModelOpt: the largest k, of all matrices that are to share a scale, minus 8.
[[nodiscard]] int nvfp4_exponent(std::span<const std::span<const std::byte>> e8m0_scales);

/// Why an NVFP4 matrix is not exactly one in FP4 with E8M0 scales: the first scale, in words, that is no
/// power of two, or of which the two halves of 32 weights have different ones; empty where
/// `recode_from_nvfp4` is exact. Scales of weights that are all zero may be anything.
[[nodiscard]] std::string why_not_exact_fp4(const StoredMatrix& nvfp4);

/// Codes stay; the scale of 32 weights is that of either half. The matrix has no `why_not_exact_fp4`.
void recode_from_nvfp4(const StoredMatrix& nvfp4, std::int64_t panel, EncodedMatrix& fp4);

/// FP4 with E8M0 scales to FP8 as the released converter does: with M the largest scale of a block of FP8,
/// 128x128 or 32x32, the block's scale is M/2^6 and every value is multiplied by its own scale over that.
/// Exact as long as no scale of the block is below M/2^14.
void recode_panel(const StoredMatrix& fp4, std::int64_t panel, EncodedMatrix& fp8);

}  // namespace baleen
