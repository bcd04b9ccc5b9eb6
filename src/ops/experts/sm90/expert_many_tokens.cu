#include "ops/experts/sm90/expert_products.cuh"

namespace baleen::sm90 {
namespace {

/// One group of two warpgroups with two blocks of 64 rows each: 256 rows an item.
struct ManyTokenSizes {
  static constexpr int kGroups = 1, kWarpgroups = 2, kBlocks = 2, kStages = 3;
  using TokenCounts = std::integer_sequence<int, 16, 32, 64, 96, 112>;
  static constexpr int kBoxTokens = 56, kSmallBoxTokens = 16, kMaxSmallBoxes = 3;
  static constexpr int kScaleBoxTokens = 64;
  static constexpr int kPlannedTiles = 0;
  static constexpr int kScaleWarps = 3;
  // The loading warps give registers to those that multiply.
  static constexpr int kConsumerRegisters = 224, kProducerRegisters = 56;
};

}  // namespace

constinit const ProductVariant kManyTokens = kVariant<ProductShape<ManyTokenSizes>>;

}  // namespace baleen::sm90
