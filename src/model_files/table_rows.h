/// Tables of n-grams between their stored rows (`Storage::kFp8Rows`) and float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model_files/matrix_codec.h"

namespace baleen {

/// Room for `num_rows` rows of `width` values, a multiple of 32.
void reset_table(EncodedMatrix& table, std::int64_t num_rows, std::int64_t width);

/// Rounds one row. Threads may encode different rows.
void encode_table_row(EncodedMatrix& table, std::int64_t row, std::span<const float> values);

/// Codes times scales, which is exact. `codes` and `scales`: of all rows.
void decode_table_row(std::span<const std::byte> codes, std::span<const std::byte> scales, std::int64_t row,
                      std::span<float> values);

}  // namespace baleen
