#include "ops/experts/sm90/expert_products.cuh"
#include "ops/experts/sm90/expert_shapes.cuh"

namespace baleen::sm90 {

constinit const ProductVariant kManyTokens = kVariant<ProductShape<ManyTokenSizes>>;

}  // namespace baleen::sm90
