// Scratch of the CUDA kernels: every operation gives back what it took, so the largest counts.

#include <algorithm>

#include "device/cuda_device.h"
#include "ops/experts/sm90/experts.h"
#include "ops/hc_pre/sm90/hc_pre.h"
#include "ops/indexer/sm90/indexer.h"
#include "ops/linear/sm90/linear.h"
#include "ops/sparse_attention/sm90/sparse_attention.h"

namespace baleen {

std::int64_t cuda_scratch_bytes(const StepShape& shape) {
  constexpr int kHopperSms = 132;  // of the SXM parts; others have fewer
  const std::int64_t widest_input = std::max({shape.hidden_size, shape.q_lora_rank, shape.o_dim});
  return std::max({sm90::linear_scratch_bytes(shape.max_rows, widest_input),
                   // h_proj of the MTP block sees every stream as a row.
                   sm90::linear_scratch_bytes(shape.max_rows * shape.hc_mult, shape.hidden_size),
                   sm90::hc_pre_scratch_bytes(shape.max_rows, shape.hidden_size),
                   sm90::indexer_scratch_bytes(shape.max_rows, shape.index_topk, kHopperSms),
                   sm90::sparse_attention_scratch_bytes(shape.head_dim, shape.max_rows, shape.max_sequences,
                                                        shape.max_positions),
                   sm90::experts_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                                               shape.moe_intermediate_size, shape.n_routed_experts)});
}

}  // namespace baleen
