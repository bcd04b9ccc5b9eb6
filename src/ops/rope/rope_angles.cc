#include "ops/rope/rope_angles.h"

#include <array>

#include "ops/rope/rope_frequencies.h"

namespace baleen {

void rope_angles_ref(const RopeAnglesArgs& args) {
  for (const SequenceSlice& slice : args.batch.slices) {
    for (std::int64_t i = 0; i < slice.num_tokens; ++i) {
      const std::int64_t row = slice.first_row + i;
      rope_angles(args.frequencies, slice.start + i, args.cosine.row(row), args.sine.row(row));
    }
  }
}

OpCost rope_angles_cost(const RopeAnglesArgs& args) {
  const double angles =
      static_cast<double>(args.batch.num_rows()) * static_cast<double>(args.frequencies.size());
  OpCost cost;
  cost.scalar_ops = 3 * angles;  // product, cosine, sine
  cost.write_bytes = 2 * sizeof(float) * angles;
  return cost;
}

}  // namespace baleen

namespace baleen::ops {

CallShape RopeAngles::shape(const RopeAnglesArgs& args) { return {.num_rows = args.batch.num_rows()}; }

void RopeAngles::accesses(const RopeAnglesArgs& args, Accesses& to) {
  to.read(args.frequencies).write(args.cosine, args.sine);
}

std::span<const CpuVariant<RopeAngles>> RopeAngles::cpu_variants() {
  static constexpr std::array<CpuVariant<RopeAngles>, 1> kVariants{
      {{.name = kReferenceVariant,
        .run = [](const RopeAnglesArgs& args, CpuContext& /*context*/) { rope_angles_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
