#include "ops/experts/expert_products.cuh"

namespace baleen {
namespace {

/// Three groups of one warpgroup: 64 rows an item, so that one token's items are nearly even over the multiprocessors.
using FewTokens = ProductShape<3, 1, 1, 5, 8, 16, 0, 0, 8, 16>;

}  // namespace

const ProductShapeFacts kFewTokensFacts = FewTokens::facts();

void few_token_products(const ExpertProducts& products, WeightFormat routed_format, CudaContext& context) {
  launch_products<FewTokens>(products, routed_format, context);
}

}  // namespace baleen
