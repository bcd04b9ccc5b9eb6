#include "ops/indexer/indexer.h"

namespace baleen {

OpCost indexer_cost(const IndexerArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto dim = static_cast<double>(args.q.extent(2));
  const auto key_bytes = static_cast<double>(args.keys.format.row_bytes());
  const MathFormat format = args.precision == Precision::kReleased ? MathFormat::kFp4
                            : args.precision == Precision::kBf16   ? MathFormat::kBF16
                                                                   : MathFormat::kF32;
  OpCost cost;
  for (const SequenceSlice& slice : args.batch.slices) {
    for (std::int64_t position = slice.start; position < slice.start + slice.num_tokens; ++position) {
      cost.write_bytes += 4 * static_cast<double>(args.selected.extent(1));
      const auto num_visible = (position + 1) / 4;
      if (num_visible <= args.selected.extent(1)) continue;  // all are selected, nothing is scored
      const auto num_keys = static_cast<double>(num_visible);
      cost.add_flops(format, num_keys * num_heads * 2 * dim);
      cost.add_flops(MathFormat::kF32, num_keys * num_heads * 3 + num_heads * dim * 12);
      cost.read_bytes += num_keys * key_bytes + num_heads * (dim + 1) * 4;
    }
  }
  return cost;
}

}  // namespace baleen
