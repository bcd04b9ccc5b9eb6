// The variants of rope on Hopper, best first.

#include <array>

#include "ops/rope/sm90/rope.h"
#include "ops/rope/sm90/rope_angles.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::Rope>> rope_variants() {
  static constexpr std::array<CudaVariant<ops::Rope>, 1> kVariants{{{.name = "sm90", .run = rope}}};
  return kVariants;
}

std::span<const CudaVariant<ops::RopeAngles>> rope_angles_variants() {
  static constexpr std::array<CudaVariant<ops::RopeAngles>, 1> kVariants{
      {{.name = "sm90", .run = rope_angles}}};
  return kVariants;
}

}  // namespace baleen::sm90
