#include "ops/hc_pre/hc_pre.h"

#include <array>

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return hc_pre_scratch_bytes(shape.max_rows, shape.hc_mult, shape.hidden_size);
}

}  // namespace

CallShape HcPre::shape(const HcPreArgs& args) { return {.num_rows = args.u.extent(0)}; }

void HcPre::accesses(const HcPreArgs& args, Accesses& to) {
  to.read(args.streams, args.weights.fn, args.weights.base, args.weights.scale, args.incoming)
      .write(args.u, args.post, args.comb, args.products, args.pre);
}

std::span<const CpuVariant<HcPre>> HcPre::cpu_variants() {
  static constexpr std::array<CpuVariant<HcPre>, 3> kVariants{
      {{.name = kSimdVariant, .run = hc_pre_cpu, .scratch_bytes = scratch_bytes},
       {.name = kTrainingVariant, .run = hc_pre_training, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const HcPreArgs& args, CpuContext& /*context*/) { hc_pre_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
