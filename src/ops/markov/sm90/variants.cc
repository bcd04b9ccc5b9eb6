// The variants of markov on Hopper, best first.

#include <algorithm>
#include <array>

#include "ops/markov/cuda/markov.h"
#include "ops/matmul/sm90/bf16_time.h"

namespace baleen::sm90 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return markov_scratch_bytes(std::max(shape.max_logit_rows, shape.max_sequences), shape.markov_rank);
}

/// Two launches; logits are read and written beside the weights.
double predict(const MarkovArgs& args, const DeviceTraits& traits) {
  KernelWork work = bf16_time::stream_work({.num_rows = args.logits.extent(0),
                                            .num_inputs = args.w2->cols,
                                            .num_segments = 1,
                                            .outputs = {args.w2->rows},
                                            .num_products = 1},
                                           traits.num_units);
  work.bytes += 2.0 * static_cast<double>(args.logits.size()) * sizeof(float);
  work.num_launches = 2;
  return seconds_of(work, traits.rates);
}

}  // namespace

std::span<const CudaVariant<ops::Markov>> markov_variants() {
  static constexpr std::array<CudaVariant<ops::Markov>, 2> kVariants{
      {{.name = "sm90/products",
        .run = markov_products,
        .why_not = [](const MarkovArgs& args,
                      const DeviceTraits& /*traits*/) { return why_not_products(args); },
        .predict = predict,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/any", .run = markov_any, .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm90
