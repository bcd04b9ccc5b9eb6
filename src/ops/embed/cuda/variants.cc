// The variants of embed, best first.

#include <array>

#include "ops/embed/cuda/embed.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Embed>> embed_variants() {
  static constexpr std::array<CudaVariant<ops::Embed>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = embed}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
