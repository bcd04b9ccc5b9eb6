// Which kernels take a call of attention.

#include "ops/sparse_attention/sm90/sparse_attention.h"

#include "ops/sparse_attention/sm90/attention_tiles.h"

namespace baleen::sm90 {

std::int64_t sparse_attention_scratch_bytes(std::int64_t head_dim, std::int64_t max_rows,
                                            std::int64_t max_sequences, std::int64_t max_positions) {
  if (head_dim != kTilesWidth) return 0;
  return attention_by_spans_scratch_bytes(max_rows, max_sequences, max_positions);
}

void attention_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  if (!args.q.empty())
    attention_by_spans(describe_attention(args, rotation, context), args.batch, args.first_slice, context);
}

void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  (why_not_tiles(args) ? attention_any_rope : attention_tiles_rope)(args, rotation, context);
}

}  // namespace baleen::sm90
