#include "ops/experts/expert_products.cuh"

namespace baleen {
namespace {

/// One group of two warpgroups: 256 rows an item, each warpgroup with two blocks of sums in registers.
using ManyTokens = ProductShape<1, 2, 2, 3, 16, 64, 232, 40, 16, 32, 64, 96, 112>;

}  // namespace

const ProductShapeFacts kManyTokensFacts = ManyTokens::facts();

void many_token_products(const ExpertProducts& products, WeightFormat routed_format, CudaContext& context) {
  launch_products<ManyTokens>(products, routed_format, context);
}

}  // namespace baleen
