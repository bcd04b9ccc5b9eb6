#include "ops/linear/fp8_products.h"
namespace baleen {
void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context) { fp8_products_few(outputs, x, num_tokens, context); }
}
