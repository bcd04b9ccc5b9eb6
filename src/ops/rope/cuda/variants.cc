// The variants of rope, best first.

#include <array>

#include "ops/rope/cuda/rope.h"
#include "ops/rope/cuda/rope_angles.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Rope>> rope_variants() {
  static constexpr std::array<CudaVariant<ops::Rope>, 1> kVariants{{{.name = BALEEN_ARCH_NAME, .run = rope}}};
  return kVariants;
}

std::span<const CudaVariant<ops::RopeAngles>> rope_angles_variants() {
  static constexpr std::array<CudaVariant<ops::RopeAngles>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = rope_angles}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
