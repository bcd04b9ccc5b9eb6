// The variants of hc_head on Hopper, best first.

#include <array>
#include <optional>

#include "ops/hc_head/sm90/hc_head.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::HcHead>> hc_head_variants() {
  static constexpr std::array<CudaVariant<ops::HcHead>, 1> kVariants{
      {{.name = "sm90",
        .run = hc_head,
        .why_not = [](const HcHeadArgs& args, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (!args.products.empty()) return "keeps no products";
          return std::nullopt;
        }}}};
  return kVariants;
}

}  // namespace baleen::sm90
