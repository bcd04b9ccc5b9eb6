#include "ops/fused_experts/sm90/fused_experts.h"
#include "ops/fused_experts/sm90/fused_sizes.cuh"

namespace baleen::sm90 {

constinit const ProductVariant kManyExchanged = kVariant<ProductShape<ExchangedSizes<ManyTokenSizes>>>;

}  // namespace baleen::sm90
