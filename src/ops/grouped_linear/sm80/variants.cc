// The variants of grouped_linear before Hopper.

#include <array>

#include "ops/grouped_linear/cuda/grouped_linear.h"

namespace baleen::sm80 {

std::span<const CudaVariant<ops::GroupedLinear>> grouped_linear_variants() {
  static constexpr std::array<CudaVariant<ops::GroupedLinear>, 1> kVariants{
      {{.name = "sm80", .run = grouped_linear}}};
  return kVariants;
}

}  // namespace baleen::sm80
