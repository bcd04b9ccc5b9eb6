// The variants of hc_head, best first.

#include <array>
#include <optional>

#include "ops/hc_head/cuda/hc_head.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::HcHead>> hc_head_variants() {
  static constexpr std::array<CudaVariant<ops::HcHead>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME,
        .run = hc_head,
        .why_not = [](const HcHeadArgs& args, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (!args.products.empty()) return "keeps no products";
          return std::nullopt;
        }}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
