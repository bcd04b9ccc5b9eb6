// The variants of lm_head on Hopper.

#include <array>

#include "ops/lm_head/cuda/lm_head.h"
#include "ops/matmul/sm90/bf16_time.h"

namespace baleen::sm90 {
namespace {

double predict(const LmHeadArgs& args, const DeviceTraits& traits) {
  const WeightMatrix& weight = *args.weight;
  return bf16_time::seconds({.num_rows = args.x.extent(0),
                             .num_inputs = weight.cols,
                             .num_segments = bf16_time::segments_of(weight.rows),
                             .outputs = {weight.rows},
                             .num_products = 1},
                            traits.num_units, traits.rates);
}

}  // namespace

std::span<const CudaVariant<ops::LmHead>> lm_head_variants() {
  static constexpr std::array<CudaVariant<ops::LmHead>, 1> kVariants{
      {{.name = "sm90", .run = lm_head, .predict = predict}}};
  return kVariants;
}

}  // namespace baleen::sm90
