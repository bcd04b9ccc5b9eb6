// The variants of engram and engram_lookup, best first.

#include <array>

#include "ops/engram/cuda/engram.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Engram>> engram_variants() {
  static constexpr std::array<CudaVariant<ops::Engram>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = engram}}};
  return kVariants;
}

std::span<const CudaVariant<ops::EngramLookup>> engram_lookup_variants() {
  static constexpr std::array<CudaVariant<ops::EngramLookup>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = engram_lookup}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
