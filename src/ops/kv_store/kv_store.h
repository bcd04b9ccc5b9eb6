/// Raw KV of a step's tokens: norm, rotate, quantise, scatter into the window pages.
/// (source: forward pass 5.1, 5.3)
#pragma once

#include <cstdint>
#include <span>

#include "numeric/latent_row.h"
#include "ops/operation/operation.h"
#include "ops/rms_norm/rms_norm.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct KvStoreArgs {
  ConstActivations<2> kv;         ///< [T, head_dim], the output of "attn.wkv"
  std::span<const float> weight;  ///< [head_dim], "attn.kv_norm"
  float eps = 1e-6F;
  ConstActivations<2> cosine;  ///< [T, rotary_dim / 2], of each row's position
  ConstActivations<2> sine;
  RaggedBatch batch;  ///< window_pages say where; position p is row p % 256 of page p / 256
  LatentPool window;  ///< rows_per_page 256; its format carries the precision
};

void kv_store(const KvStoreArgs& args, CpuContext& context);
void kv_store_ref(const KvStoreArgs& args);
void kv_store_cpu(const KvStoreArgs& args, CpuContext& context);
[[nodiscard]] OpCost kv_store_cost(const KvStoreArgs& args);
[[nodiscard]] std::int64_t kv_store_scratch_bytes(std::int64_t head_dim, int num_threads);

}  // namespace baleen
