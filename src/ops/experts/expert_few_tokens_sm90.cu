#include "ops/experts/expert_products.cuh"

namespace baleen {
namespace {

constexpr int kPlannedTiles = 520;  // of 512 visits in tiles of 16, and as many shared ones as 64 tokens have

/// Three groups of one warpgroup with one block of 64 rows.
using FewTokens = ProductShape<3, 1, 1, 5, 8, 16, 0, 0, kPlannedTiles, 8, 16>;
/// With two blocks.
using SomeTokens = ProductShape<3, 1, 2, 3, 8, 16, 0, 0, kPlannedTiles, 8, 16>;

}  // namespace

constinit const ProductVariant kFewTokens = kVariant<FewTokens>;
constinit const ProductVariant kSomeTokens = kVariant<SomeTokens>;

}  // namespace baleen
