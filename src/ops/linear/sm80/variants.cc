// The variants of linear before Hopper.

#include <array>

#include "ops/linear/cuda/linear.h"
#include "ops/matmul/sm80/product_list.h"

namespace baleen::sm80 {
namespace {

using ListSeconds = double (*)(const ListShape& shape, int num_units, const DeviceRates& rates);

/// What FP8 products take; a variant decides nothing about those with BF16 weights.
template <ListSeconds kSeconds>
double fp8_seconds(const LinearArgs& args, const DeviceTraits& traits) {
  ListShape shape{.num_tokens = args.x.extent(0), .num_inputs = args.x.extent(1)};
  for (const LinearOutput& output : args.outputs) {
    if (output.weight->format != WeightFormat::kFp8) continue;
    shape.all_outputs += output.weight->rows;
    shape.weight_bytes += static_cast<double>(output.weight->size_bytes());
  }
  return kSeconds(shape, traits.num_units, traits.rates);
}

}  // namespace

std::span<const CudaVariant<ops::Linear>> linear_variants() {
  static constexpr std::array<CudaVariant<ops::Linear>, 2> kVariants{
      {{.name = "sm80/few_tokens",
        .run = linear_few_tokens,
        .why_not = why_not_linear,
        .predict = fp8_seconds<few_seconds>,
        .scratch_bytes = linear_scratch_bytes},
       {.name = "sm80/many_tokens",
        .run = linear_many_tokens,
        .why_not = why_not_linear,
        .predict = fp8_seconds<many_seconds>,
        .scratch_bytes = linear_scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm80
