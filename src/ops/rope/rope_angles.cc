#include "ops/rope/rope_angles.h"

#include "ops/rope/rope_frequencies.h"

namespace baleen {

void rope_angles(const RopeAnglesArgs& args, CpuContext& /*context*/) {
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
