#include "trainer/serving/engine_weights.h"

#include <algorithm>

#include "base/check.h"
#include "trainer/run/stored_weights.h"

namespace baleen {
namespace {

using Bytes = std::vector<std::byte>;

Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

/// Of a tensor that is no matrix.
Bytes plain_bytes(const TensorSpec& tensor, std::span<const float> values, const TokenTables& token_tables) {
  if (tensor.storage == Storage::kI64)
    return copy_of(std::as_bytes(std::span(token_tables.experts[static_cast<std::size_t>(tensor.block)])));
  if (tensor.storage == Storage::kF32) return copy_of(std::as_bytes(values));
  const std::vector<Bf16Bits> rounded = bf16_of(values);
  return copy_of(std::as_bytes(std::span(rounded)));
}

}  // namespace

std::shared_ptr<const ModelWeights> engine_weights(const ModelConfig& config,
                                                   const Parameters<float>& weights,
                                                   const TokenTables& token_tables,
                                                   const StorageFormats& formats,
                                                   const std::filesystem::path& tokenizer, ThreadPool& pool) {
  ModelConfig served = config;
  served.dense_format = formats.dense;
  served.expert_format = formats.experts;
  const auto storage = std::make_shared<std::vector<Bytes>>();
  storage->reserve(3 * weights.size());  // views of the elements are kept
  std::vector<TensorInfo> tensors;
  EncodedMatrix encoded;
  const auto add = [&](const TensorHeader& header, Bytes bytes) {
    storage->push_back(std::move(bytes));
    tensors.push_back({header, storage->back(), "trainer"});
  };
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorSpec& spec = weights.spec(i);
    const std::vector<TensorHeader> headers = stored_tensors(spec, formats);
    if (!spec.is_encoded()) {
      add(headers.front(), plain_bytes(spec, weights.values(i), token_tables));
      continue;
    }
    encode_matrix(spec, weights.values(i), formats, encoded, pool);
    add(headers.front(), encoded.weight);
    const auto scales = encoded.scales();
    for (std::size_t scale = 0; scale < scales.size(); ++scale)
      add(headers[scale + 1], copy_of(scales[scale]));
  }
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  return std::make_shared<ModelWeights>(served, Checkpoint(tokenizer.string(), std::move(tensors), storage));
}

}  // namespace baleen
