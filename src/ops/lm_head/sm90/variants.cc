// The variants of lm_head on Hopper, best first.

#include <array>

#include "ops/lm_head/sm90/lm_head.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::LmHead>> lm_head_variants() {
  static constexpr std::array<CudaVariant<ops::LmHead>, 1> kVariants{{{.name = "sm90", .run = lm_head}}};
  return kVariants;
}

}  // namespace baleen::sm90
