// The variants of route on Hopper, best first.

#include <array>

#include "ops/route/sm90/route.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::Route>> route_variants() {
  static constexpr std::array<CudaVariant<ops::Route>, 1> kVariants{{{.name = "sm90", .run = route}}};
  return kVariants;
}

}  // namespace baleen::sm90
