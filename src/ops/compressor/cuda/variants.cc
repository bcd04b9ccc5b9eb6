// The variants of compressor, best first.

#include <array>

#include "ops/compressor/cuda/compressor.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Compressor>> compressor_variants() {
  static constexpr std::array<CudaVariant<ops::Compressor>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = compressor}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
