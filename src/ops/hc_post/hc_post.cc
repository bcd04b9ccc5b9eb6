#include "ops/hc_post/hc_post.h"

#include <array>

namespace baleen::ops {

CallShape HcPost::shape(const HcPostArgs& args) { return {.num_rows = args.f.extent(0)}; }

void HcPost::accesses(const HcPostArgs& args, Accesses& to) {
  to.read(args.f, args.post, args.comb, args.entering()).write(args.streams);
}

std::span<const CpuVariant<HcPost>> HcPost::cpu_variants() {
  static constexpr std::array<CpuVariant<HcPost>, 2> kVariants{
      {{.name = kSimdVariant, .run = hc_post_cpu},
       {.name = kReferenceVariant,
        .run = [](const HcPostArgs& args, CpuContext& /*context*/) { hc_post_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
