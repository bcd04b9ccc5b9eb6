// The variants of grouped_linear on Hopper, best first.

#include <array>

#include "ops/grouped_linear/sm90/grouped_linear.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::GroupedLinear>> grouped_linear_variants() {
  static constexpr std::array<CudaVariant<ops::GroupedLinear>, 1> kVariants{
      {{.name = "sm90", .run = grouped_linear}}};
  return kVariants;
}

}  // namespace baleen::sm90
