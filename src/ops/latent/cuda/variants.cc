// The variants of latent, best first.

#include <array>

#include "ops/latent/cuda/latent.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Latent>> latent_variants() {
  static constexpr std::array<CudaVariant<ops::Latent>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = latent}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
