#include <algorithm>

#include "ops/sparse_attention/sparse_attention.h"

namespace baleen {

OpCost sparse_attention_cost(const SparseAttentionArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto widths = static_cast<double>(args.q.extent(2) + args.out.extent(2));  // of keys and values
  const auto row_bytes = static_cast<double>(args.window.format.row_bytes());
  OpCost cost;
  for (const SequenceSlice& slice : args.batch.slices) {
    for (std::int64_t position = slice.start; position < slice.start + slice.num_tokens; ++position) {
      // The selection's length follows from the position, so that nothing is read that does not exist yet.
      std::int64_t num_entries = std::min(args.window_tokens, position + 1 - slice.window_begin);
      if (args.ratio == 4) num_entries += std::min((position + 1) / 4, args.selected.extent(1));
      if (args.ratio == 128) num_entries += (position + 1) / 128;
      cost.add_flops(MathFormat::kBF16, static_cast<double>(num_entries) * num_heads * 2 * widths);
      cost.read_bytes += static_cast<double>(num_entries) * row_bytes +
                         num_heads * static_cast<double>(args.q.extent(2)) * 4;
      cost.write_bytes += num_heads * static_cast<double>(args.out.extent(2)) * 4;
    }
  }
  return cost;
}

}  // namespace baleen
