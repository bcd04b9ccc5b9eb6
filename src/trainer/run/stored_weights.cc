#include "trainer/run/stored_weights.h"

#include <algorithm>

#include "numeric/row_rounding.h"

namespace baleen {
namespace {

/// The rows of one panel among the values of the whole matrix.
template <class T>
std::span<T> panel_of(const StoredMatrix& matrix, std::int64_t panel, std::span<T> values) {
  return values.subspan(static_cast<std::size_t>(panel * kPanelRows * matrix.cols),
                        static_cast<std::size_t>(matrix.panel_rows(panel) * matrix.cols));
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
    std::ranges::copy(weights.values(at), to.begin());
    if (tensor.storage == Storage::kBf16) row_rounding::to_bf16(to);
  });
}

}  // namespace baleen
