/// Raw KV of a step's tokens: norm, rotate, quantise, scatter into the window pages. Which values are
/// quantised, the rotated ones too or not, is the row's format.
/// (source: forward pass 5.1, 5.3; releases specification 2.4)
#pragma once

#include <cstdint>
#include <span>

#include "numeric/latent_row.h"
#include "ops/operation/variant.h"
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

void kv_store_ref(const KvStoreArgs& args);
void kv_store_cpu(const KvStoreArgs& args, CpuContext& context);
[[nodiscard]] OpCost kv_store_cost(const KvStoreArgs& args);
[[nodiscard]] OpCost kv_store_backward_cost(const KvStoreArgs& args);
[[nodiscard]] std::int64_t kv_store_scratch_bytes(std::int64_t head_dim, int num_threads);

namespace ops {

struct KvStore {
  using Args = KvStoreArgs;
  static constexpr std::string_view kName = "kv_store";
  [[nodiscard]] static OpCost cost(const KvStoreArgs& args) { return kv_store_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const KvStoreArgs& args) { return kv_store_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const KvStoreArgs& args);
  static void accesses(const KvStoreArgs& args, Accesses& to);
  static void check(const KvStoreArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<KvStore>> cpu_variants();
};

}  // namespace ops

template <>
struct Fusion<ops::RmsNorm, ops::KvStore> {
  static constexpr std::string_view kName = "rms_norm_kv_store";
  [[nodiscard]] static OpCost cost(const RmsNormArgs& norm, const KvStoreArgs& store) {
    return rms_norm_cost(norm) + kv_store_cost(store);
  }
  [[nodiscard]] static CallShape shape(const RmsNormArgs& /*norm*/, const KvStoreArgs& store) {
    return ops::KvStore::shape(store);
  }
};

}  // namespace baleen
