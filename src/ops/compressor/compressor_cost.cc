#include <algorithm>

#include "ops/compressor/pooled_rows.h"

namespace baleen {

OpCost compressor_cost(const CompressorArgs& args) {
  const auto num_rows = static_cast<double>(args.kv.extent(0));
  const auto width = static_cast<double>(args.state.width);
  const auto head_dim = static_cast<double>(args.norm_weight.size());
  const bool latent = args.latent.base != nullptr;
  double num_entries = 0, num_kept = 0, num_overlap = 0;
  for (const SequenceSlice& slice : args.batch.slices) {
    num_entries += static_cast<double>(end_entry(slice, args.ratio) - first_entry(slice, args.ratio));
    num_kept += static_cast<double>(std::min(slice.num_tokens, args.state.ring_rows));
    if (args.overlap.base != nullptr) {
      num_overlap += static_cast<double>(num_overlap_rows(slice.start + slice.num_tokens) -
                                         num_overlap_rows(slice.start));
    }
  }
  const double rows_per_entry = args.ratio == 4 ? 8 : args.ratio;
  const double row_bytes =
      static_cast<double>(latent ? args.latent.format.row_bytes() : args.index_key.format.row_bytes());
  OpCost cost;
  // Maximum, subtraction, exponential (about ten) and two sums for a pooled value; norm, rotation and
  // rounding after.
  cost.add_flops(MathFormat::kF32,
                 num_rows * width + num_entries * (rows_per_entry * head_dim * 15 + 10 * head_dim));
  if (!latent)
    cost.add_flops(MathFormat::kF32, num_entries * head_dim * 7);  // log2(128) additions of the transform
  cost.read_bytes = 4 * (2 * num_rows * width + num_entries * rows_per_entry * head_dim * 2);
  cost.write_bytes =
      4 * (num_rows * width + 2 * num_kept * width + 2 * num_overlap * head_dim) + num_entries * row_bytes;
  return cost;
}

}  // namespace baleen
