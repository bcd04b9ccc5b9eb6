#include "ops/sample/sample.h"

#include <array>

namespace baleen::ops {

CallShape Sample::shape(const SampleArgs& args) { return {.num_rows = args.logits.extent(0)}; }

void Sample::accesses(const SampleArgs& args, Accesses& to) { to.read(args.logits).write(args.ids); }

std::span<const CpuVariant<Sample>> Sample::cpu_variants() {
  static constexpr std::array<CpuVariant<Sample>, 1> kVariants{
      {{.name = kReferenceVariant,
        .run = [](const SampleArgs& args, CpuContext& /*context*/) { sample_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
