// The variants of hc_head on Hopper, best first.

#include <array>

#include "ops/hc_head/sm90/hc_head.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::HcHead>> hc_head_variants() {
  static constexpr std::array<CudaVariant<ops::HcHead>, 1> kVariants{{{.name = "sm90", .run = hc_head}}};
  return kVariants;
}

}  // namespace baleen::sm90
