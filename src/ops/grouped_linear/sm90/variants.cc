// The variants of grouped_linear on Hopper.

#include <array>

#include "ops/grouped_linear/cuda/grouped_linear.h"
#include "ops/matmul/sm90/bf16_time.h"

namespace baleen::sm90 {
namespace {

double predict(const GroupedLinearArgs& args, const DeviceTraits& traits) {
  const WeightMatrix& weight = *args.weight;
  return bf16_time::seconds({.num_rows = args.x.extent(0),
                             .num_inputs = weight.cols,
                             .num_groups = args.x.extent(1),
                             .has_fp8_weights = is_fp8(weight.format),
                             .outputs = {weight.rows},
                             .num_products = 1},
                            traits.num_units, traits.rates);
}

}  // namespace

std::span<const CudaVariant<ops::GroupedLinear>> grouped_linear_variants() {
  static constexpr std::array<CudaVariant<ops::GroupedLinear>, 1> kVariants{
      {{.name = "sm90", .run = grouped_linear, .predict = predict}}};
  return kVariants;
}

}  // namespace baleen::sm90
