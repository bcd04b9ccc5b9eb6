#include "model_files/matrix_codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

std::array<float, 256> make_e4m3_table() {
  std::array<float, 256> table{};
  for (std::size_t code = 0; code < table.size(); ++code)
    table[code] = e4m3_to_float(static_cast<std::uint8_t>(code));
  return table;
}

const std::array<float, 256> kE4m3Table = make_e4m3_table();

std::uint8_t byte_at(std::span<const std::byte> bytes, std::int64_t idx) {
  return std::to_integer<std::uint8_t>(bytes[static_cast<std::size_t>(idx)]);
}

void put_byte(std::span<std::byte> bytes, std::int64_t idx, std::uint8_t value) {
  bytes[static_cast<std::size_t>(idx)] = std::byte{value};
}

float scale_at(const StoredMatrix& matrix, std::int64_t idx) {
  if (matrix.scale_dtype == DType::kF8E8M0) return e8m0_to_float(byte_at(matrix.scale, idx));
  float value = 0;
  std::memcpy(&value, matrix.scale.data() + idx * static_cast<std::int64_t>(sizeof(float)), sizeof(float));
  return value;
}

void decode_f32_row(const StoredMatrix& matrix, std::int64_t row, float* values) {
  std::memcpy(values, matrix.weight.data() + row * matrix.cols * 4,
              static_cast<std::size_t>(matrix.cols) * 4);
}

void decode_bf16_row(const StoredMatrix& matrix, std::int64_t row, float* values) {
  const std::byte* source = matrix.weight.data() + row * matrix.cols * 2;
  for (std::int64_t col = 0; col < matrix.cols; ++col) {
    Bf16Bits bits = 0;
    std::memcpy(&bits, source + col * 2, sizeof(bits));
    values[col] = bf16_to_float(bits);
  }
}

void decode_fp8_row(const StoredMatrix& matrix, std::int64_t row, float* values) {
  const std::int64_t num_blocks = matrix.cols / kWeightBlock;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const float scale = scale_at(matrix, row / kWeightBlock * num_blocks + block);
    for (std::int64_t col = block * kWeightBlock; col < (block + 1) * kWeightBlock; ++col) {
      values[col] = kE4m3Table[byte_at(matrix.weight, row * matrix.cols + col)] * scale;
    }
  }
}

void decode_fp4_row(const StoredMatrix& matrix, std::int64_t row, float* values) {
  const std::int64_t num_blocks = matrix.cols / kIndexerGroup;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const float scale = scale_at(matrix, row * num_blocks + block);
    for (std::int64_t col = block * kIndexerGroup; col < (block + 1) * kIndexerGroup; col += 2) {
      const std::uint8_t pair = byte_at(matrix.weight, (row * matrix.cols + col) / 2);
      values[col] = e2m1_to_float(pair & 15) * scale;
      values[col + 1] = e2m1_to_float(pair >> 4) * scale;
    }
  }
}

void encode_f32_row(EncodedMatrix& matrix, std::int64_t row, const float* values) {
  std::memcpy(matrix.weight.data() + row * matrix.cols * 4, values,
              static_cast<std::size_t>(matrix.cols) * 4);
}

void encode_bf16_row(EncodedMatrix& matrix, std::int64_t row, const float* values) {
  std::byte* target = matrix.weight.data() + row * matrix.cols * 2;
  for (std::int64_t col = 0; col < matrix.cols; ++col) {
    const Bf16Bits bits = float_to_bf16(values[col]);
    std::memcpy(target + col * 2, &bits, sizeof(bits));
  }
}

void encode_fp8_block(EncodedMatrix& matrix, std::int64_t panel, std::int64_t block, std::int64_t num_rows,
                      const float* values) {
  float amax = 0;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* part = values + row * matrix.cols + block * kWeightBlock;
    for (std::int64_t i = 0; i < kWeightBlock; ++i) amax = std::max(amax, std::fabs(part[i]));
  }
  const std::uint8_t scale = fp8_scale_code(amax);
  put_byte(matrix.scale, panel * (matrix.cols / kWeightBlock) + block, scale);
  const float inverse = 1.0F / e8m0_to_float(scale);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t col = block * kWeightBlock;
    const float* part = values + row * matrix.cols + col;
    std::byte* codes = matrix.weight.data() + (panel * kPanelRows + row) * matrix.cols + col;
    for (std::int64_t i = 0; i < kWeightBlock; ++i) codes[i] = std::byte{float_to_e4m3(part[i] * inverse)};
  }
}

void encode_fp4_row(EncodedMatrix& matrix, std::int64_t row, const float* values) {
  std::array<std::uint8_t, kIndexerGroup> codes;
  const std::int64_t num_blocks = matrix.cols / kIndexerGroup;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const std::int64_t col = block * kIndexerGroup;
    const std::uint8_t scale = quantise_fp4_block({values + col, codes.size()}, codes);
    put_byte(matrix.scale, row * num_blocks + block, scale);
    std::byte* target = matrix.weight.data() + (row * matrix.cols + col) / 2;
    for (std::size_t i = 0; i < codes.size() / 2; ++i) {
      target[i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
    }
  }
}

/// The e4m3 codes of the sixteen e2m1 values times a power of two.
std::array<std::uint8_t, 16> recoded_magnitudes(int exponent) {
  std::array<std::uint8_t, 16> codes;
  for (std::uint8_t code = 0; code < 8; ++code) {
    codes[code] = float_to_e4m3(std::ldexp(e2m1_to_float(code), exponent));
    codes[code + 8] = codes[code] | 0x80;
  }
  return codes;
}

}  // namespace

std::int64_t StoredMatrix::panel_rows(std::int64_t panel) const {
  return std::min(kPanelRows, rows - panel * kPanelRows);
}

void EncodedMatrix::reset(std::int64_t num_rows, std::int64_t num_cols, WeightFormat to) {
  BALEEN_CHECK_EQ(num_cols % kWeightBlock, 0);
  rows = num_rows;
  cols = num_cols;
  format = to;
  const std::int64_t fp8_scales = (rows + kWeightBlock - 1) / kWeightBlock * (cols / kWeightBlock);
  switch (format) {
    case WeightFormat::kF32:
      weight.resize(static_cast<std::size_t>(rows * cols * 4));
      scale.clear();
      break;
    case WeightFormat::kBF16:
      weight.resize(static_cast<std::size_t>(rows * cols * 2));
      scale.clear();
      break;
    case WeightFormat::kFp8:
      weight.resize(static_cast<std::size_t>(rows * cols));
      scale.resize(static_cast<std::size_t>(fp8_scales));
      break;
    case WeightFormat::kFp4:
      weight.resize(static_cast<std::size_t>(rows * cols / 2));
      scale.resize(static_cast<std::size_t>(rows * (cols / kIndexerGroup)));
      break;
    case WeightFormat::kInt8:
      BALEEN_CHECK(false && "int8 is in no file");
      break;
  }
}

StoredMatrix EncodedMatrix::view() const { return {rows, cols, format, DType::kF8E8M0, weight, scale}; }

void decode_panel(const StoredMatrix& matrix, std::int64_t panel, std::span<float> values) {
  for (std::int64_t i = 0; i < matrix.panel_rows(panel); ++i) {
    float* target = values.data() + i * matrix.cols;
    const std::int64_t row = panel * kPanelRows + i;
    switch (matrix.format) {
      case WeightFormat::kF32:
        decode_f32_row(matrix, row, target);
        break;
      case WeightFormat::kBF16:
        decode_bf16_row(matrix, row, target);
        break;
      case WeightFormat::kFp8:
        decode_fp8_row(matrix, row, target);
        break;
      case WeightFormat::kFp4:
        decode_fp4_row(matrix, row, target);
        break;
      case WeightFormat::kInt8:
        BALEEN_CHECK(false && "int8 is in no file");
        break;
    }
  }
}

void encode_panel(EncodedMatrix& matrix, std::int64_t panel, std::span<const float> values) {
  const std::int64_t num_rows = std::min(kPanelRows, matrix.rows - panel * kPanelRows);
  if (matrix.format == WeightFormat::kFp8) {
    for (std::int64_t block = 0; block < matrix.cols / kWeightBlock; ++block) {
      encode_fp8_block(matrix, panel, block, num_rows, values.data());
    }
    return;
  }
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const float* source = values.data() + i * matrix.cols;
    const std::int64_t row = panel * kPanelRows + i;
    if (matrix.format == WeightFormat::kF32) encode_f32_row(matrix, row, source);
    if (matrix.format == WeightFormat::kBF16) encode_bf16_row(matrix, row, source);
    if (matrix.format == WeightFormat::kFp4) encode_fp4_row(matrix, row, source);
  }
}

void recode_panel(const StoredMatrix& fp4, std::int64_t panel, EncodedMatrix& fp8) {
  constexpr int kHeadroomBits = 6;  // 6 * 2^6 = 384 is the largest product, below the 448 of e4m3
  const std::int64_t scales_per_row = fp4.cols / kIndexerGroup;
  const std::int64_t scales_per_block = kWeightBlock / kIndexerGroup;
  const std::int64_t row_begin = panel * kPanelRows;
  const std::int64_t row_end = row_begin + fp4.panel_rows(panel);
  for (std::int64_t block = 0; block < fp4.cols / kWeightBlock; ++block) {
    const std::int64_t first_scale = block * scales_per_block;
    int largest = 0;
    for (std::int64_t row = row_begin; row < row_end; ++row) {
      for (std::int64_t i = 0; i < scales_per_block; ++i) {
        largest = std::max<int>(largest, byte_at(fp4.scale, row * scales_per_row + first_scale + i));
      }
    }
    const int block_scale = std::max(largest - kHeadroomBits, 0);
    put_byte(fp8.scale, panel * (fp4.cols / kWeightBlock) + block, static_cast<std::uint8_t>(block_scale));
    for (std::int64_t row = row_begin; row < row_end; ++row) {
      for (std::int64_t i = first_scale; i < first_scale + scales_per_block; ++i) {
        const auto codes = recoded_magnitudes(byte_at(fp4.scale, row * scales_per_row + i) - block_scale);
        const std::int64_t place = row * fp4.cols + i * kIndexerGroup;
        for (std::int64_t k = 0; k < kIndexerGroup; k += 2) {
          const std::uint8_t pair = byte_at(fp4.weight, (place + k) / 2);
          put_byte(fp8.weight, place + k, codes[pair & 15]);
          put_byte(fp8.weight, place + k + 1, codes[pair >> 4]);
        }
      }
    }
  }
}

}  // namespace baleen
