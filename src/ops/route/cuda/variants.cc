// The variants of route, best first.

#include <array>
#include <optional>

#include "ops/route/cuda/route.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::Route>> route_variants() {
  static constexpr std::array<CudaVariant<ops::Route>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME,
        .run = route,
        .why_not = [](const RouteArgs& args, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (args.sum_eps != 0.0F) return "divides by the sum as it is";
          return std::nullopt;
        }}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
