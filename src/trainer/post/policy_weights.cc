#include "trainer/post/policy_weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "numeric/bf16.h"

namespace baleen {
namespace {

using Bytes = std::vector<std::byte>;

Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Bytes rounded(std::span<const float> values) {
  std::vector<Bf16Bits> bits(values.size());
  std::ranges::transform(values, bits.begin(), [](float value) { return float_to_bf16(value); });
  return copy_of(std::as_bytes(std::span(bits)));
}

}  // namespace

std::shared_ptr<const ModelWeights> policy_weights(const ModelConfig& config,
                                                   const Parameters<float>& weights,
                                                   const HashTables& hash_tables) {
  ModelConfig in_bf16 = config;
  in_bf16.dense_format = in_bf16.expert_format = WeightFormat::kBF16;
  const StorageFormats formats{.dense = WeightFormat::kBF16, .experts = WeightFormat::kBF16};
  const auto storage = std::make_shared<std::vector<Bytes>>();
  storage->reserve(weights.size());
  std::vector<TensorInfo> tensors;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorSpec& spec = weights.spec(i);
    const std::vector<TensorHeader> headers = stored_tensors(spec, formats);
    BALEEN_CHECK_EQ(headers.size(), std::size_t{1});
    if (spec.storage == Storage::kI64) {
      storage->push_back(
          copy_of(std::as_bytes(std::span(hash_tables[static_cast<std::size_t>(spec.block)]))));
    } else if (spec.storage == Storage::kF32) {
      storage->push_back(copy_of(std::as_bytes(weights.values(i))));
    } else {
      storage->push_back(rounded(weights.values(i)));
    }
    tensors.push_back({headers.front(), storage->back(), "policy"});
  }
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  return std::make_shared<ModelWeights>(in_bf16, Checkpoint("policy", std::move(tensors), storage));
}

}  // namespace baleen
