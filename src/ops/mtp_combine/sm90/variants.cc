// The variants of mtp_combine on Hopper, best first.

#include <array>

#include "ops/mtp_combine/sm90/mtp_combine.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::MtpCombine>> mtp_combine_variants() {
  static constexpr std::array<CudaVariant<ops::MtpCombine>, 1> kVariants{
      {{.name = "sm90", .run = mtp_combine}}};
  return kVariants;
}

}  // namespace baleen::sm90
