/// Attention on Hopper's tensor cores.
#pragma once

#include "ops/sparse_attention/cuda/sparse_attention.h"

namespace baleen::sm90 {

void attention_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context);

}  // namespace baleen::sm90
