// The variants of mtp_combine, best first.

#include <array>

#include "ops/mtp_combine/cuda/mtp_combine.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::MtpCombine>> mtp_combine_variants() {
  static constexpr std::array<CudaVariant<ops::MtpCombine>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = mtp_combine}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
