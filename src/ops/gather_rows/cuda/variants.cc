// The variants of gather_rows, best first.

#include <array>

#include "ops/gather_rows/cuda/gather_rows.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::GatherRows>> gather_rows_variants() {
  static constexpr std::array<CudaVariant<ops::GatherRows>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = gather_rows}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
