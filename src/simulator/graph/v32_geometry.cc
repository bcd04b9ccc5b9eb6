#include "simulator/graph/v32_geometry.h"

#include <algorithm>

namespace baleen {
namespace {

constexpr std::int64_t kLayers = 61, kDenseLayers = 3, kHidden = 7168, kHeads = 128, kVocabulary = 129280;
constexpr std::int64_t kQueryLatent = 1536, kNopeDim = 128, kRopeDim = 64, kLatent = 512, kValueDim = 128;
constexpr std::int64_t kIndexHeads = 64, kIndexDim = 128, kTopK = 2048;
constexpr std::int64_t kExperts = 256, kActive = 8 + 1, kExpertWidth = 2048, kDenseWidth = 18432;
constexpr std::int64_t kLatentRowBytes = 656, kIndexRowBytes = 132;

double product(std::int64_t outputs, std::int64_t inputs) {
  return 2.0 * static_cast<double>(outputs) * static_cast<double>(inputs);
}

}  // namespace

OpCost v32_token_cost(std::int64_t num_positions) {
  const double projections = product(kQueryLatent, kHidden) +
                             product(kHeads * (kNopeDim + kRopeDim), kQueryLatent) +
                             product(kLatent + kRopeDim, kHidden) + product(kHidden, kHeads * kValueDim) +
                             product(kIndexHeads * kIndexDim, kQueryLatent) + product(kIndexDim, kHidden);
  // Keys' and values' matrices act on queries and results instead.
  const double absorbed = 2 * static_cast<double>(kHeads) * product(kLatent, kNopeDim);
  const double attention = product(kHeads * (2 * kLatent + kRopeDim), std::min(num_positions, kTopK));
  const double scores = product(kIndexHeads * kIndexDim, num_positions);
  OpCost cost;
  cost.add_flops(MathFormat::kFp8, kLayers * (projections + scores) +
                                       (kLayers - kDenseLayers) * 3 * static_cast<double>(kActive) *
                                           product(kExpertWidth, kHidden) +
                                       kDenseLayers * 3 * product(kDenseWidth, kHidden));
  cost.add_flops(MathFormat::kBF16, kLayers * (absorbed + attention + product(kIndexHeads, kHidden)) +
                                        (kLayers - kDenseLayers) * product(kExperts, kHidden) +
                                        product(kVocabulary, kHidden));
  return cost;
}

std::int64_t v32_cache_bytes(std::int64_t num_positions) {
  return kLayers * (kLatentRowBytes + kIndexRowBytes) * num_positions;
}

std::int64_t v32_cache_read_bytes(std::int64_t num_positions) {
  return kLayers * (kLatentRowBytes * std::min(num_positions, kTopK) + kIndexRowBytes * num_positions);
}

double fp8_equivalent_flops(const OpCost& cost) {
  const auto of = [&](MathFormat format) { return cost.flops[static_cast<std::size_t>(format)]; };
  return 2 * (of(MathFormat::kF32) + of(MathFormat::kBF16)) + of(MathFormat::kFp8) + of(MathFormat::kFp4) / 2;
}

}  // namespace baleen
