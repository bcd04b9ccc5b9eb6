#include "ops/experts/sm90/expert_products.cuh"

namespace baleen::sm90 {
namespace {

/// Three groups of one warpgroup with two blocks of 64 rows.
struct FewTokenSizes {
  static constexpr int kGroups = 3, kWarpgroups = 1, kBlocks = 2, kStages = 3;
  using TokenCounts = std::integer_sequence<int, 8, 16>;
  static constexpr int kBoxTokens = 8, kSmallBoxTokens = 4, kMaxSmallBoxes = 1;
  static constexpr int kScaleBoxTokens = 16;
  static constexpr int kPlannedTiles = 520;  // of 512 assignments, and as many shared ones as 64 tokens have
  static constexpr int kScaleWarps = 0;
  static constexpr int kConsumerRegisters = 0, kProducerRegisters = 0;
};

}  // namespace

constinit const ProductVariant kFewTokens = kVariant<ProductShape<FewTokenSizes>>;

}  // namespace baleen::sm90
