// The variants of gather_rows on Hopper, best first.

#include <array>

#include "ops/gather_rows/sm90/gather_rows.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::GatherRows>> gather_rows_variants() {
  static constexpr std::array<CudaVariant<ops::GatherRows>, 1> kVariants{
      {{.name = "sm90", .run = gather_rows}}};
  return kVariants;
}

}  // namespace baleen::sm90
