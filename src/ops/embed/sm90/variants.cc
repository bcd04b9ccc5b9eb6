// The variants of embed on Hopper, best first.

#include <array>

#include "ops/embed/sm90/embed.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::Embed>> embed_variants() {
  static constexpr std::array<CudaVariant<ops::Embed>, 1> kVariants{{{.name = "sm90", .run = embed}}};
  return kVariants;
}

}  // namespace baleen::sm90
