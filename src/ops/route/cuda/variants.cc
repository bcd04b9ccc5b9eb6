// The variants of route, best first.

#include <array>

#include "ops/route/cuda/route.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Route>> route_variants() {
  static constexpr std::array<CudaVariant<ops::Route>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = route}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
