#include "ops/rms_norm/rms_norm.h"

#include <fmt/format.h>

#include <array>

namespace baleen::ops {

CallShape RmsNorm::shape(const RmsNormArgs& args) {
  return {.num_rows = args.x.extent(0) / args.rows_per_token,
          .detail = fmt::format("width {}", args.x.extent(1))};
}

std::span<const CpuVariant<RmsNorm>> RmsNorm::cpu_variants() {
  static constexpr std::array<CpuVariant<RmsNorm>, 2> kVariants{
      {{.name = kSimdVariant, .run = rms_norm_cpu},
       {.name = kReferenceVariant,
        .run = [](const RmsNormArgs& args, CpuContext& /*context*/) { rms_norm_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
