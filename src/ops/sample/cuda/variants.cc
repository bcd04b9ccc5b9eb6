// The variants of sample, best first.

#include <array>

#include "ops/sample/cuda/sample.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Sample>> sample_variants() {
  static constexpr std::array<CudaVariant<ops::Sample>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = sample}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
