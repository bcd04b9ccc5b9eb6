// The variants of lm_head before Hopper.

#include <array>

#include "ops/lm_head/cuda/lm_head.h"

namespace baleen::sm80 {

std::span<const CudaVariant<ops::LmHead>> lm_head_variants() {
  static constexpr std::array<CudaVariant<ops::LmHead>, 1> kVariants{{{.name = "sm80", .run = lm_head}}};
  return kVariants;
}

}  // namespace baleen::sm80
