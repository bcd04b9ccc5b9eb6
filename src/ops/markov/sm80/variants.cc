// The variants of markov before Hopper, best first.

#include <algorithm>
#include <array>

#include "ops/markov/cuda/markov.h"

namespace baleen::sm80 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return markov_scratch_bytes(std::max(shape.max_logit_rows, shape.max_sequences), shape.markov_rank);
}

}  // namespace

std::span<const CudaVariant<ops::Markov>> markov_variants() {
  static constexpr std::array<CudaVariant<ops::Markov>, 2> kVariants{
      {{.name = "sm80/products",
        .run = markov_products,
        .why_not = [](const MarkovArgs& args,
                      const DeviceTraits& /*traits*/) { return why_not_products(args); },
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/any", .run = markov_any, .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm80
