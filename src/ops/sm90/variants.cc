#include "ops/sm90/variants.h"

#include "ops/collectives/cuda/collectives.h"
#include "ops/collectives/cuda/nccl_collectives.h"
#include "ops/compressor/cuda/compressor.h"
#include "ops/dispatch/cuda/dispatch.h"
#include "ops/dispatch/cuda/nccl_dispatch.h"
#include "ops/embed/cuda/embed.h"
#include "ops/engram/cuda/engram.h"
#include "ops/entry_store/cuda/entry_store.h"
#include "ops/experts/cuda/experts.h"
#include "ops/fused_experts/sm90/fused_experts.h"
#include "ops/gather_rows/cuda/gather_rows.h"
#include "ops/grouped_linear/cuda/grouped_linear.h"
#include "ops/hc_head/cuda/hc_head.h"
#include "ops/hc_post/cuda/hc_post.h"
#include "ops/hc_pre/cuda/hc_pre.h"
#include "ops/indexer/cuda/indexer.h"
#include "ops/kv_store/cuda/kv_store.h"
#include "ops/latent/cuda/latent.h"
#include "ops/linear/cuda/linear.h"
#include "ops/lm_head/cuda/lm_head.h"
#include "ops/markov/cuda/markov.h"
#include "ops/mtp_combine/cuda/mtp_combine.h"
#include "ops/rms_norm/cuda/rms_norm.h"
#include "ops/rope/cuda/rope.h"
#include "ops/rope/cuda/rope_angles.h"
#include "ops/route/cuda/route.h"
#include "ops/sample/cuda/sample.h"
#include "ops/sparse_attention/cuda/sparse_attention.h"
#include "ops/stream_mean/cuda/stream_mean.h"

namespace baleen::sm90 {

namespace {

/// Of operations that concern one GPU.
VariantTable<CudaContext> variants_without_messages() {
  VariantTable<CudaContext> table;
  table.add(embed_variants());
  table.add(engram_lookup_variants());
  table.add(engram_variants());
  table.add(rope_angles_variants());
  table.add(rope_variants());
  table.add(hc_pre_variants());
  table.add(hc_pre_norm_variants());
  table.add(hc_post_variants());
  table.add(hc_post_pre_norm_variants());
  table.add(hc_head_variants());
  table.add(rms_norm_variants());
  table.add(rms_norm_rope_variants());
  table.add(linear_variants());
  table.add(kv_store_variants());
  table.add(rms_norm_kv_store_variants());
  table.add(compressor_variants());
  table.add(latent_variants());
  table.add(entry_store_variants());
  table.add(indexer_variants());
  table.add(sparse_attention_variants());
  table.add(sparse_attention_rope_variants());
  table.add(grouped_linear_variants());
  table.add(route_variants());
  table.add(experts_variants());
  table.add(mtp_combine_variants());
  table.add(stream_mean_variants());
  table.add(lm_head_variants());
  table.add(markov_variants());
  table.add(gather_rows_variants());
  table.add(sample_variants());
  return table;
}

}  // namespace

VariantTable<CudaContext> variants() {
  VariantTable<CudaContext> table = variants_without_messages();
  table.add(all_reduce_variants());
  table.add(reduce_scatter_variants());
  table.add(all_gather_variants());
  table.add(all_to_all_variants());
  table.add(send_variants());
  table.add(receive_variants());
  table.add(dispatch_variants());
  table.add(combine_variants());
  table.add(fused_experts_variants());
  return table;
}

VariantTable<CudaContext> variants_over_nccl() {
  VariantTable<CudaContext> table = variants_without_messages();
  table.add(nccl_all_reduce_variants());
  table.add(nccl_reduce_scatter_variants());
  table.add(nccl_all_gather_variants());
  table.add(nccl_all_to_all_variants());
  table.add(nccl_send_variants());
  table.add(nccl_receive_variants());
  table.add(nccl_dispatch_variants());
  table.add(nccl_combine_variants());
  return table;
}

}  // namespace baleen::sm90
