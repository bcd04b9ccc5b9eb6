// Which kernels take a call of attention.

#include "ops/sparse_attention/sm90/sparse_attention.h"

#include <algorithm>

#include "ops/sparse_attention/cuda/mma_tiles.h"
#include "ops/sparse_attention/sm90/attention_tiles.h"

namespace baleen::sm90 {

std::int64_t sparse_attention_scratch_bytes(std::int64_t head_dim, std::int64_t max_rows,
                                            std::int64_t max_sequences, std::int64_t max_positions) {
  if (head_dim != kTilesWidth) return 0;
  return std::max(attention_by_spans_scratch_bytes(max_rows, max_sequences, max_positions),
                  mma_tiles::scratch_bytes(max_rows));
}

std::optional<Reason> why_not_wgmma_tiles(const SparseAttentionArgs& args) {
  if (args.window.format.has_groups()) return "reads V4's rows; these have scales over all values";
  return why_not_tiles(args);
}

void attention_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  if (!args.q.empty())
    attention_by_spans(describe_attention(args, rotation, context), args.batch, args.first_slice, context);
}

void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  const auto run = why_not_tiles(args)         ? attention_any_rope
                   : why_not_wgmma_tiles(args) ? attention_mma_tiles_rope
                                               : attention_tiles_rope;
  run(args, rotation, context);
}

}  // namespace baleen::sm90
