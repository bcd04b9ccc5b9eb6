/// Attention on Hopper's tensor cores.
#pragma once

#include "ops/sparse_attention/cuda/sparse_attention.h"

namespace baleen::sm90 {

/// Takes V4's rows.
[[nodiscard]] std::optional<Reason> why_not_wgmma_tiles(const SparseAttentionArgs& args);
void attention_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context);

}  // namespace baleen::sm90
