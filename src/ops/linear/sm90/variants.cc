// The variants of linear on Hopper.

#include <array>

#include "ops/linear/cuda/linear.h"
#include "ops/linear/sm90/linear_time.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::Linear>> linear_variants() {
  static constexpr std::array<CudaVariant<ops::Linear>, 2> kVariants{
      {{.name = "sm90/few_tokens",
        .run = linear_few_tokens,
        .why_not = why_not_linear,
        .predict = linear_seconds<few_tokens_work>,
        .scratch_bytes = linear_scratch_bytes},
       {.name = "sm90/many_tokens",
        .run = linear_many_tokens,
        .why_not = why_not_linear,
        .predict = linear_seconds<many_tokens_work>,
        .scratch_bytes = linear_scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm90
