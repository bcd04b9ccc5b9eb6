#include "ops/experts/expert_products.cuh"

namespace baleen {
namespace {

/// One group of two warpgroups with two blocks of 64 rows each: 256 rows an item. The loading warps give registers to those
/// that multiply.
using ManyTokens = ProductShape<1, 2, 2, 3, 16, 64, 224, 56, 0, 16, 32, 64, 96, 112>;

}  // namespace

constinit const ProductVariant kManyTokens = kVariant<ManyTokens>;

}  // namespace baleen
