#include "trainer/run/stored_weights.h"

#include <algorithm>

#include "model_files/table_rows.h"
#include "numeric/row_rounding.h"

namespace baleen {
namespace {

/// The rows of one panel among the values of the whole matrix.
template <class T>
std::span<T> panel_of(const StoredMatrix& matrix, std::int64_t panel, std::span<T> values) {
  return values.subspan(static_cast<std::size_t>(panel * kPanelRows * matrix.cols),
                        static_cast<std::size_t>(matrix.panel_rows(panel) * matrix.cols));
}

/// Row `row` of a table among all its values.
template <class T>
std::span<T> row_of(const TensorSpec& table, std::int64_t row, std::span<T> values) {
  const std::int64_t width = table.shape[1];
  return values.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
}

void round_table(const TensorSpec& table, std::span<const float> values, std::span<float> stored) {
  EncodedMatrix encoded;
  reset_table(encoded, table.shape[0], table.shape[1]);
  for (std::int64_t row = 0; row < table.shape[0]; ++row) {
    encode_table_row(encoded, row, row_of(table, row, values));
    decode_table_row(encoded.weight, encoded.scale, row, row_of(table, row, stored));
  }
}

void round_matrix(const TensorSpec& tensor, const StorageFormats& formats, std::span<const float> values,
                  std::span<float> stored) {
  EncodedMatrix encoded;
  encoded.reset(tensor.shape[0], tensor.shape[1], formats.of(tensor));
  const StoredMatrix matrix = encoded.view();
  for (std::int64_t panel = 0; panel < matrix.num_panels(); ++panel) {
    encode_panel(encoded, panel, panel_of(matrix, panel, values));
    decode_panel(matrix, panel, panel_of(matrix, panel, stored));
  }
}

}  // namespace

StorageFormats stored_formats(const ModelConfig& config) {
  return {.dense = config.dense_format, .experts = config.expert_format};
}

void encode_matrix(const TensorSpec& tensor, std::span<const float> values, const StorageFormats& formats,
                   EncodedMatrix& encoded, ThreadPool& pool) {
  if (tensor.storage == Storage::kFp8Rows) {
    reset_table(encoded, tensor.shape[0], tensor.shape[1]);
    return pool.parallel_for(tensor.shape[0], [&](std::int64_t row, int) {
      encode_table_row(encoded, row, row_of(tensor, row, values));
    });
  }
  encoded.reset(tensor.shape[0], tensor.shape[1], formats.of(tensor));
  const StoredMatrix matrix = encoded.view();
  pool.parallel_for(matrix.num_panels(), [&](std::int64_t panel, int) {
    encode_panel(encoded, panel, panel_of(matrix, panel, values));
  });
}

std::vector<Bf16Bits> bf16_of(std::span<const float> values) {
  std::vector<Bf16Bits> bits(values.size());
  std::ranges::transform(values, bits.begin(), [](float value) { return float_to_bf16(value); });
  return bits;
}

void round_to_stored(const Parameters<float>& weights, const StorageFormats& formats,
                     Parameters<float>& stored, ThreadPool& pool) {
  pool.parallel_for(static_cast<std::int64_t>(weights.size()), [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    const TensorSpec& tensor = weights.spec(at);
    const std::span<float> to = stored.values(at);
    if (tensor.is_matrix()) return round_matrix(tensor, formats, weights.values(at), to);
    if (tensor.storage == Storage::kFp8Rows) return round_table(tensor, weights.values(at), to);
    std::ranges::copy(weights.values(at), to.begin());
    if (tensor.storage == Storage::kBf16) row_rounding::to_bf16(to);
  });
}

}  // namespace baleen
