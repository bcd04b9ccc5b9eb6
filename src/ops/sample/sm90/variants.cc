// The variants of sample on Hopper, best first.

#include <array>

#include "ops/sample/sm90/sample.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::Sample>> sample_variants() {
  static constexpr std::array<CudaVariant<ops::Sample>, 1> kVariants{{{.name = "sm90", .run = sample}}};
  return kVariants;
}

}  // namespace baleen::sm90
