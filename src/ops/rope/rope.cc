#include "ops/rope/rope.h"

#include <array>

namespace baleen::ops {

CallShape Rope::shape(const RopeArgs& args) { return {.num_rows = args.x.extent(0)}; }

void Rope::accesses(const RopeArgs& args, Accesses& to) { to.read(args.cosine, args.sine).update(args.x); }

std::span<const CpuVariant<Rope>> Rope::cpu_variants() {
  static constexpr std::array<CpuVariant<Rope>, 3> kVariants{
      {{.name = kSimdVariant, .run = rope_cpu},
       {.name = kTrainingVariant, .run = rope_training},
       {.name = kReferenceVariant,
        .run = [](const RopeArgs& args, CpuContext& /*context*/) { rope_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
