#include "ops/linear/cuda/fp8_products.h"

#include <limits>

#include "base/check.h"
#include "ops/matmul/sm80/product_list.h"

namespace baleen::sm80 {
namespace {

static_assert(kMaxProducts <= kMaxListedProducts);

ProductList describe(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                     int tile_outputs) {
  BALEEN_CHECK(!outputs.empty());
  const std::int64_t num_inputs = outputs.front().weight->cols;
  ProductList list{.tokens = reinterpret_cast<const std::byte*>(x.codes),
                   .token_bytes = num_inputs,
                   .token_scales = x.scales,
                   .scale_stride = x.scale_stride,
                   .tile_outputs = tile_outputs,
                   .group_outputs = std::numeric_limits<std::int32_t>::max(),
                   .num_tokens = static_cast<std::int32_t>(num_tokens),
                   .num_slices = static_cast<std::int32_t>(num_inputs / kSliceInputs)};
  for (const LinearOutput& output : outputs) {
    BALEEN_CHECK_EQ(output.weight->cols, num_inputs);
    add_product(list, *output.weight, output.y);
  }
  return list;
}

}  // namespace

void fp8_products_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                      CudaContext& context) {
  multiply_few(WeightFormat::kFp8, true, describe(outputs, x, num_tokens, kFewTileOutputs), context);
}

void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context) {
  BALEEN_CHECK(!outputs.empty());
  ListShape shape{.num_tokens = num_tokens, .num_inputs = outputs.front().weight->cols};
  for (const LinearOutput& output : outputs) {
    shape.all_outputs += output.weight->rows;
    shape.weight_bytes += static_cast<double>(output.weight->size_bytes());
  }
  const int tile_outputs = many_tile_outputs(shape, context.num_sms, context.rates);
  multiply_many(WeightFormat::kFp8, true, describe(outputs, x, num_tokens, tile_outputs), context);
}

}  // namespace baleen::sm80
