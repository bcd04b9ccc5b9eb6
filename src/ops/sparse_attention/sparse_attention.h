/// Attention over the last `window_tokens` positions and the layer's compressed entries, one softmax with a
/// sink; one vector per entry is key and value for all heads. (source: forward pass 5.6, 5.7)
///
///     list of query t: positions max(window_begin, t - window + 1) .. t in order (window_begin: of the
///                      slice), then compressed entries, ascending:
///                      none (ratio 0), selected[t] where an indexer selects, else all j < (t + 1) / ratio
///     of all queries of a slice that sees ahead (ratio 0 alone), whose positions are s .. e:
///                      positions max(window_begin, s - window) .. e in order
///     s_i = (q . v_i) scale;  m = running max;  Z = sum exp(s_i - m) + exp(sink - m)
///     o   = bf( (1 / Z) sum bf(exp(s_i - m)) v_i )        blocks of 64 list entries, as the released kernel
///
/// The blocks are cut from the start of the list, so a query's result does not depend on the rest of the
/// batch. The sink enlarges the denominator only: -inf has no effect, +inf gives zeros; a query that sees
/// nothing gives zeros.
///
/// Rows of V3.2's layout (numeric/latent_row.h) are keys of 512 + 64 values and values of 512. No model here
/// has them; the reference and the plain loops of sm_90a take them.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/latent_row.h"
#include "ops/operation/variant.h"
#include "ops/rope/rope.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct SparseAttentionArgs {
  ConstActivations<3>
      q;              ///< [T, H, head_dim], normalised and rotated; head_dim (a row's width) a multiple of 64
  RaggedBatch batch;  ///< this step's window rows and entries are already stored
  /// Where they begin in the step's batch, of which `batch` may be a part.
  std::int64_t first_row = 0, first_slice = 0;
  LatentPool window;  ///< 256 rows a page, found through window_pages
  /// 256 / ratio rows a page, found through pages; base null for ratio 0. Of another layer where layers share
  /// entries; its rows may have another format than the window's, of the same width.
  LatentPool compressed;
  int ratio = 0;  ///< positions of an entry; 0: none
  /// [T, top_k] entries, ascending; the first -1 ends them. Empty: a query sees all entries.
  View<const std::int32_t, 2> selected;
  std::span<const float> sink;  ///< [H]
  std::int64_t window_tokens = 128;
  float scale = 0.0F;  ///< head_dim^-1/2
  Precision precision = Precision::kReleased;
  Activations<3> out;  ///< [T, H, head_dim] (V3.2: [T, H, 512]); not q

  [[nodiscard]] bool selects() const { return ratio != 0 && selected.extent(1) > 0; }
};

void sparse_attention_ref(const SparseAttentionArgs& args);
void sparse_attention_cpu(const SparseAttentionArgs& args, CpuContext& context);
[[nodiscard]] OpCost sparse_attention_cost(const SparseAttentionArgs& args);
[[nodiscard]] OpCost sparse_attention_backward_cost(const SparseAttentionArgs& args);
/// Of attention and rotation in one pass.
[[nodiscard]] OpCost sparse_attention_rope_cost(const SparseAttentionArgs& args, const RopeArgs& rotation);
[[nodiscard]] std::int64_t sparse_attention_scratch_bytes(std::int64_t num_heads, std::int64_t head_dim,
                                                          int num_threads);

namespace ops {

struct SparseAttention {
  using Args = SparseAttentionArgs;
  static constexpr std::string_view kName = "sparse_attention";
  [[nodiscard]] static OpCost cost(const SparseAttentionArgs& args) { return sparse_attention_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const SparseAttentionArgs& args) {
    return sparse_attention_backward_cost(args);
  }
  [[nodiscard]] static CallShape shape(const SparseAttentionArgs& args);
  static void accesses(const SparseAttentionArgs& args, Accesses& to);
  static void check(const SparseAttentionArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<SparseAttention>> cpu_variants();
};

}  // namespace ops

template <>
struct Fusion<ops::SparseAttention, ops::Rope> {
  static constexpr std::string_view kName = "sparse_attention_rope";
  [[nodiscard]] static OpCost cost(const SparseAttentionArgs& args, const RopeArgs& rotation) {
    return sparse_attention_rope_cost(args, rotation);
  }
  [[nodiscard]] static CallShape shape(const SparseAttentionArgs& args, const RopeArgs& /*rotation*/) {
    return ops::SparseAttention::shape(args);
  }
};

}  // namespace baleen
