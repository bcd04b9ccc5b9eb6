// The variants of compressor on Hopper, best first.

#include <array>

#include "ops/compressor/sm90/compressor.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::Compressor>> compressor_variants() {
  static constexpr std::array<CudaVariant<ops::Compressor>, 1> kVariants{
      {{.name = "sm90", .run = compressor}}};
  return kVariants;
}

}  // namespace baleen::sm90
