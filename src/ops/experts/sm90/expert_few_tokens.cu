#include "ops/experts/sm90/expert_products.cuh"
#include "ops/experts/sm90/expert_shapes.cuh"

namespace baleen::sm90 {

constinit const ProductVariant kFewTokens = kVariant<ProductShape<FewTokenSizes>>;

}  // namespace baleen::sm90
