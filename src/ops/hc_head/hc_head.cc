#include "ops/hc_head/hc_head.h"

#include <array>

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return hc_head_scratch_bytes(shape.max_logit_rows, shape.hc_mult, shape.hidden_size);
}

}  // namespace

CallShape HcHead::shape(const HcHeadArgs& args) { return {.num_rows = args.y.extent(0)}; }

void HcHead::accesses(const HcHeadArgs& args, Accesses& to) {
  to.read(args.streams, args.weights.fn, args.weights.base, args.weights.scale, args.given)
      .write(args.y, args.products);
}

std::span<const CpuVariant<HcHead>> HcHead::cpu_variants() {
  static constexpr std::array<CpuVariant<HcHead>, 3> kVariants{
      {{.name = kSimdVariant, .run = hc_head_cpu, .scratch_bytes = scratch_bytes},
       {.name = kTrainingVariant, .run = hc_head_training, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const HcHeadArgs& args, CpuContext& /*context*/) { hc_head_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
