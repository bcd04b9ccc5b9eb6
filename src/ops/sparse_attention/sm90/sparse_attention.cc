// Which kernels take a call of attention.

#include "ops/sparse_attention/sm90/sparse_attention.h"

#include "ops/sparse_attention/sm90/attention_tiles.h"

namespace baleen::sm90 {

std::int64_t sparse_attention_scratch_bytes(std::int64_t head_dim, std::int64_t max_rows,
                                            std::int64_t max_sequences, std::int64_t max_positions) {
  return head_dim == kTilesWidth ? attention_by_spans_scratch_bytes(max_rows, max_sequences, max_positions)
                                 : 0;
}

void attention_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  if (!args.q.empty())
    attention_by_spans(describe_attention(args, rotation, context), args.batch, args.first_slice, context);
}

std::optional<Reason> why_not_tiles(const SparseAttentionArgs& args) {
  constexpr std::int64_t kAlign = 16;
  const auto aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kAlign == 0;
  };
  const auto rows_aligned = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(sizeof(Bf16Bits)) % kAlign == 0;
  };
  const LatentFormat& format = args.window.format;
  if (format.layout != LatentLayout::kV4) return "reads rows of V4's layout; these are V3.2's";
  if (format.nope != kTilesNope || format.rope != kTilesRope) return "reads rows of 448 + 64 values";
  if (!aligned(args.window.base) || !aligned(args.compressed.base) ||
      args.window.page_stride_bytes % kAlign != 0 || args.compressed.page_stride_bytes % kAlign != 0) {
    return "reads pages that begin on 16 bytes";
  }
  if (!aligned(args.q.address()) || !aligned(args.out.address()) || !rows_aligned(args.q.stride(0)) ||
      !rows_aligned(args.q.stride(1)) || !rows_aligned(args.out.stride(0)) ||
      !rows_aligned(args.out.stride(1))) {
    return "reads and writes heads that begin on 16 bytes";
  }
  return std::nullopt;
}

void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  (why_not_tiles(args) ? attention_any_rope : attention_tiles_rope)(args, rotation, context);
}

}  // namespace baleen::sm90
