#include "model_files/matrix_codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "model/weight_checks.h"
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
  const FormatLayout lies = format_layout(matrix.format);
  const std::int64_t num_blocks = lies.scales_across(matrix.cols);
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const float scale = scale_at(matrix, row / lies.scale_rows * num_blocks + block);
    for (std::int64_t col = block * lies.scale_cols; col < (block + 1) * lies.scale_cols; ++col) {
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

constexpr std::int64_t kNvfp4Group = 16;
constexpr float kMadeMatrixScale = 0x1p-8F;

float matrix_scale_of(const StoredMatrix& matrix) {
  float value = 0;
  std::memcpy(&value, matrix.matrix_scale.data(), sizeof(value));
  return value;
}

void decode_nvfp4_row(const StoredMatrix& matrix, std::int64_t row, float* values) {
  const std::int64_t num_groups = matrix.cols / kNvfp4Group;
  const float matrix_scale = matrix_scale_of(matrix);
  for (std::int64_t group = 0; group < num_groups; ++group) {
    const float scale = kE4m3Table[byte_at(matrix.scale, row * num_groups + group)];
    for (std::int64_t col = group * kNvfp4Group; col < (group + 1) * kNvfp4Group; col += 2) {
      const std::uint8_t pair = byte_at(matrix.weight, (row * matrix.cols + col) / 2);
      values[col] = e2m1_to_float(pair & 15) * scale * matrix_scale;
      values[col + 1] = e2m1_to_float(pair >> 4) * scale * matrix_scale;
    }
  }
}

void decode_q8_row(const StoredMatrix& matrix, std::int64_t row, float* values) {
  for (std::int64_t col = 0; col < matrix.cols; ++col) {
    const std::int64_t place = row * matrix.cols + col;
    values[col] = static_cast<float>(static_cast<std::int8_t>(byte_at(matrix.weight, place))) *
                  scale_at(matrix, place / kIndexerGroup);
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

/// The square block of the scale whose first weight is at `first_row` and `first_col`. `values`: of the row
/// `panel_row`, where the panel begins.
void encode_fp8_block(EncodedMatrix& matrix, std::int64_t first_row, std::int64_t first_col,
                      std::int64_t panel_row, const float* values) {
  const FormatLayout lies = format_layout(matrix.format);
  const std::int64_t num_rows = std::min<std::int64_t>(lies.scale_rows, matrix.rows - first_row);
  const auto part_of = [&](std::int64_t row) {
    return values + (first_row - panel_row + row) * matrix.cols + first_col;
  };
  float amax = 0;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* part = part_of(row);
    for (std::int64_t i = 0; i < lies.scale_cols; ++i) amax = std::max(amax, std::fabs(part[i]));
  }
  const std::uint8_t scale = fp8_scale_code(amax);
  put_byte(matrix.scale,
           first_row / lies.scale_rows * lies.scales_across(matrix.cols) + first_col / lies.scale_cols,
           scale);
  const float inverse = 1.0F / e8m0_to_float(scale);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* part = part_of(row);
    std::byte* codes = matrix.weight.data() + (first_row + row) * matrix.cols + first_col;
    for (std::int64_t i = 0; i < lies.scale_cols; ++i) codes[i] = std::byte{float_to_e4m3(part[i] * inverse)};
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

/// A group's largest magnitude becomes 6, as nearly as its scale can say.
void encode_nvfp4_row(EncodedMatrix& matrix, std::int64_t row, const float* values) {
  const std::int64_t num_groups = matrix.cols / kNvfp4Group;
  const float matrix_scale = matrix_scale_of(matrix.view());
  for (std::int64_t group = 0; group < num_groups; ++group) {
    const float* part = values + group * kNvfp4Group;
    float amax = 0;
    for (std::int64_t i = 0; i < kNvfp4Group; ++i) amax = std::max(amax, std::fabs(part[i]));
    const std::uint8_t scale = float_to_e4m3(amax / (kE2m1Max * matrix_scale));
    put_byte(matrix.scale, row * num_groups + group, scale);
    const float step = e4m3_to_float(scale) * matrix_scale;
    const auto code = [&](float value) { return step == 0 ? std::uint8_t{0} : float_to_e2m1(value / step); };
    std::byte* target = matrix.weight.data() + (row * matrix.cols + group * kNvfp4Group) / 2;
    for (std::int64_t i = 0; i < kNvfp4Group; i += 2)
      target[i / 2] = static_cast<std::byte>(code(part[i]) | code(part[i + 1]) << 4);
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
  matrix_scale.clear();
  const FormatLayout lies = format_layout(format);
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
    case WeightFormat::kFp8x32:
      weight.resize(static_cast<std::size_t>(rows * cols));
      scale.resize(static_cast<std::size_t>(lies.scales_down(rows) * lies.scales_across(cols)));
      break;
    case WeightFormat::kFp4:
      weight.resize(static_cast<std::size_t>(rows * cols / 2));
      scale.resize(static_cast<std::size_t>(rows * (cols / kIndexerGroup)));
      break;
    case WeightFormat::kNvfp4:
      weight.resize(static_cast<std::size_t>(rows * cols / 2));
      scale.resize(static_cast<std::size_t>(rows * (cols / kNvfp4Group)));
      set_matrix_scale(kMadeMatrixScale);
      break;
    case WeightFormat::kInt8:
    case WeightFormat::kQ8:
      BALEEN_CHECK(false && "in no checkpoint that is written");
      break;
  }
}

void EncodedMatrix::set_matrix_scale(float value) {
  matrix_scale.resize(sizeof(value));
  std::memcpy(matrix_scale.data(), &value, sizeof(value));
}

StoredMatrix EncodedMatrix::view() const {
  return {rows, cols, format, DType::kF8E8M0, weight, scale, matrix_scale};
}

std::vector<std::span<const std::byte>> EncodedMatrix::scales() const {
  std::vector<std::span<const std::byte>> all;
  if (!scale.empty()) all.emplace_back(scale);
  if (!matrix_scale.empty()) all.emplace_back(matrix_scale);
  return all;
}

StoredMatrix stored_matrix(const Checkpoint& checkpoint, const TensorSpec& tensor,
                           const StorageFormats& formats) {
  const std::vector<TensorHeader> stored = stored_tensors(tensor, formats);
  StoredMatrix matrix{.rows = tensor.shape[0],
                      .cols = tensor.shape[1],
                      .format = formats.of(tensor),
                      .scale_dtype = formats.scale_of(tensor),
                      .weight = checkpoint.at(stored[0].name).bytes,
                      .scale = {}};
  for (std::size_t i = 1; i < stored.size(); ++i) {
    const TensorInfo& scale = checkpoint.at(stored[i].name);
    check_scale(scale, matrix.format);
    (i == 1 ? matrix.scale : matrix.matrix_scale) = scale.bytes;
  }
  return matrix;
}

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
      case WeightFormat::kFp8x32:
        decode_fp8_row(matrix, row, target);
        break;
      case WeightFormat::kFp4:
        decode_fp4_row(matrix, row, target);
        break;
      case WeightFormat::kNvfp4:
        decode_nvfp4_row(matrix, row, target);
        break;
      case WeightFormat::kQ8:
        decode_q8_row(matrix, row, target);
        break;
      case WeightFormat::kInt8:
        BALEEN_CHECK(false && "int8 is in no file");
        break;
    }
  }
}

void encode_panel(EncodedMatrix& matrix, std::int64_t panel, std::span<const float> values) {
  const std::int64_t num_rows = std::min(kPanelRows, matrix.rows - panel * kPanelRows);
  if (is_fp8(matrix.format)) {
    const FormatLayout lies = format_layout(matrix.format);
    const std::int64_t begin = panel * kPanelRows;
    for (std::int64_t row = begin; row < begin + num_rows; row += lies.scale_rows)
      for (std::int64_t col = 0; col < matrix.cols; col += lies.scale_cols)
        encode_fp8_block(matrix, row, col, begin, values.data());
    return;
  }
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const float* source = values.data() + i * matrix.cols;
    const std::int64_t row = panel * kPanelRows + i;
    if (matrix.format == WeightFormat::kF32) encode_f32_row(matrix, row, source);
    if (matrix.format == WeightFormat::kBF16) encode_bf16_row(matrix, row, source);
    if (matrix.format == WeightFormat::kFp4) encode_fp4_row(matrix, row, source);
    if (matrix.format == WeightFormat::kNvfp4) encode_nvfp4_row(matrix, row, source);
  }
}

int nvfp4_exponent(std::span<const std::span<const std::byte>> e8m0_scales) {
  constexpr int kLargestExponent = 8;  // 2^8 is the largest power of two in e4m3
  int largest = 0;
  for (const std::span<const std::byte> scales : e8m0_scales) {
    for (const std::byte code : scales) largest = std::max(largest, std::to_integer<int>(code));
  }
  return largest - kE8m0Bias - kLargestExponent;
}

void recode_to_nvfp4(const StoredMatrix& fp4, std::int64_t panel, int m, EncodedMatrix& nvfp4) {
  const std::int64_t row_begin = panel * kPanelRows, row_end = row_begin + fp4.panel_rows(panel);
  const std::int64_t row_bytes = fp4.cols / 2, scales_per_row = fp4.cols / kIndexerGroup;
  std::ranges::copy(fp4.weight.subspan(static_cast<std::size_t>(row_begin * row_bytes),
                                       static_cast<std::size_t>((row_end - row_begin) * row_bytes)),
                    nvfp4.weight.begin() + row_begin * row_bytes);
  for (std::int64_t i = row_begin * scales_per_row; i < row_end * scales_per_row; ++i) {
    const int k = byte_at(fp4.scale, i) - kE8m0Bias;
    const std::uint8_t scale = float_to_e4m3(std::ldexp(1.0F, k - m));
    put_byte(nvfp4.scale, 2 * i, scale);
    put_byte(nvfp4.scale, 2 * i + 1, scale);
  }
}

namespace {

/// k of 2^k.
std::optional<int> exponent_of(float value) {
  int exponent = 0;
  if (std::frexp(value, &exponent) != 0.5F) return std::nullopt;
  return exponent - 1;
}

/// The e8m0 code of every e4m3 scale times `matrix_scale`; none where that is no power of two of e8m0's.
std::array<std::optional<std::uint8_t>, 256> e8m0_codes(float matrix_scale) {
  std::array<std::optional<std::uint8_t>, 256> codes;
  const auto matrix_exponent = exponent_of(matrix_scale);
  for (std::size_t scale = 0; matrix_exponent && scale < codes.size(); ++scale) {
    const auto exponent = exponent_of(kE4m3Table[scale]);
    if (!exponent) continue;
    const int code = *exponent + *matrix_exponent + kE8m0Bias;
    if (code >= 0 && code < kE8m0NaN) codes[scale] = static_cast<std::uint8_t>(code);
  }
  return codes;
}

/// Of group `half`, counted from the matrix's first.
bool is_all_zero(const StoredMatrix& nvfp4, std::int64_t half) {
  constexpr std::uint8_t kMagnitudes = 0x77;  // without signs
  for (std::int64_t i = 0; i < kNvfp4Group / 2; ++i) {
    if ((byte_at(nvfp4.weight, half * (kNvfp4Group / 2) + i) & kMagnitudes) != 0) return false;
  }
  return true;
}

}  // namespace

std::string why_not_exact_fp4(const StoredMatrix& nvfp4) {
  if (!exponent_of(matrix_scale_of(nvfp4)))
    return fmt::format("weight_scale_2 is {}, no power of two", matrix_scale_of(nvfp4));
  const auto codes = e8m0_codes(matrix_scale_of(nvfp4));
  const std::int64_t across = nvfp4.cols / kNvfp4Group;
  const auto text = [&](std::int64_t half) {
    return fmt::format("weight_scale [{}, {}] is {}", half / across, half % across,
                       kE4m3Table[byte_at(nvfp4.scale, half)]);
  };
  for (std::int64_t half = 0; half < nvfp4.rows * across; half += 2) {
    const std::uint8_t first = byte_at(nvfp4.scale, half), second = byte_at(nvfp4.scale, half + 1);
    if (first == second && codes[first]) continue;
    const bool has_first = !is_all_zero(nvfp4, half), has_second = !is_all_zero(nvfp4, half + 1);
    if (has_first && !codes[first]) return text(half) + ", no power of two that FP4 has";
    if (has_second && !codes[second]) return text(half + 1) + ", no power of two that FP4 has";
    if (has_first && has_second)
      return fmt::format("{}, and that of the other half of 32 weights {}", text(half), kE4m3Table[second]);
  }
  return "";
}

void recode_from_nvfp4(const StoredMatrix& nvfp4, std::int64_t panel, EncodedMatrix& fp4) {
  const auto codes = e8m0_codes(matrix_scale_of(nvfp4));
  const std::int64_t row_begin = panel * kPanelRows, row_end = row_begin + nvfp4.panel_rows(panel);
  const std::int64_t row_bytes = nvfp4.cols / 2, scales_per_row = nvfp4.cols / kIndexerGroup;
  std::ranges::copy(nvfp4.weight.subspan(static_cast<std::size_t>(row_begin * row_bytes),
                                         static_cast<std::size_t>((row_end - row_begin) * row_bytes)),
                    fp4.weight.begin() + row_begin * row_bytes);
  for (std::int64_t i = row_begin * scales_per_row; i < row_end * scales_per_row; ++i) {
    const std::uint8_t first = byte_at(nvfp4.scale, 2 * i), second = byte_at(nvfp4.scale, 2 * i + 1);
    const bool take_second = first != second && is_all_zero(nvfp4, 2 * i);
    // Of 32 zeros any scale will do; e8m0 has none that is zero.
    put_byte(fp4.scale, i, codes[take_second ? second : first].value_or(0));
  }
}

namespace {

/// The weights from `row_begin` to `row_end` of the scales that `block` counts along a row of FP8.
void recode_block(const StoredMatrix& fp4, std::int64_t row_begin, std::int64_t row_end, std::int64_t block,
                  EncodedMatrix& fp8) {
  constexpr int kHeadroomBits = 6;  // 6 * 2^6 = 384 is the largest product, below the 448 of e4m3
  const FormatLayout lies = format_layout(fp8.format);
  const std::int64_t scales_per_row = fp4.cols / kIndexerGroup;
  const std::int64_t first_scale = block * lies.scale_cols / kIndexerGroup;
  const std::int64_t end_scale = first_scale + lies.scale_cols / kIndexerGroup;
  int largest = 0;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (std::int64_t i = first_scale; i < end_scale; ++i)
      largest = std::max<int>(largest, byte_at(fp4.scale, row * scales_per_row + i));
  }
  const int block_scale = std::max(largest - kHeadroomBits, 0);
  put_byte(fp8.scale, row_begin / lies.scale_rows * lies.scales_across(fp8.cols) + block,
           static_cast<std::uint8_t>(block_scale));
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (std::int64_t i = first_scale; i < end_scale; ++i) {
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

}  // namespace

void recode_panel(const StoredMatrix& fp4, std::int64_t panel, EncodedMatrix& fp8) {
  const FormatLayout lies = format_layout(fp8.format);
  const std::int64_t panel_end = panel * kPanelRows + fp4.panel_rows(panel);
  for (std::int64_t row = panel * kPanelRows; row < panel_end; row += lies.scale_rows) {
    for (std::int64_t block = 0; block < lies.scales_across(fp8.cols); ++block)
      recode_block(fp4, row, std::min(panel_end, row + lies.scale_rows), block, fp8);
  }
}

}  // namespace baleen
