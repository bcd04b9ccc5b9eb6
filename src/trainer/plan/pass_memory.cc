#include "trainer/plan/pass_memory.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "ops/dense_attention/dense_attention.h"
#include "ops/linear/linear.h"
#include "trainer/graph/token_loss.h"

namespace baleen {
namespace {

constexpr std::int64_t kFloatBytes = 4, kIndexBytes = 8, kIdBytes = 4;

/// Arrays of one block's activations in bytes, in a fixed order: blocks that share an object take the
/// largest of each.
using BlockArrays = std::vector<std::int64_t>;

std::int64_t sum_of(const BlockArrays& arrays) {
  return std::accumulate(arrays.begin(), arrays.end(), std::int64_t{0});
}

/// Sizes of one pass's arrays (trainer/graph/activations.h has them by name), in bytes.
class PassSizes {
 public:
  PassSizes(const ModelConfig& config, std::int64_t num_rows, std::int64_t length, const PassOptions& options,
            std::int64_t num_threads)
      : c_(config),
        options_(options),
        num_documents_(num_rows),
        length_(length),
        n_(num_rows * length),
        num_threads_(num_threads),
        rounds_(options.rounds_as_released &&
                activation_rounding(config.dense_format, Precision::kReleased) == ActivationRounding::kFp8) {}

  [[nodiscard]] std::int64_t streams() const { return kFloatBytes * n_ * c_.hc_dim(); }

  [[nodiscard]] BlockArrays block(std::int64_t block) const {
    BlockArrays arrays;
    site(arrays, true);
    attention(c_.attention(block), arrays);
    site(arrays, true);
    experts(arrays);
    add(arrays, {narrow(), streams(), narrow()});  // attn_out, middle, ffn_out
    return arrays;
  }

  /// What the backward of a block takes beside its activations and the streams' gradients before and after.
  [[nodiscard]] std::int64_t block_backward(std::int64_t block) const {
    const std::int64_t leaves = narrow() + per_token(mixes());  // LeaveGradients
    return streams() + narrow() + leaves +
           std::max({experts_backward(), attention_backward(c_.attention(block)), site_backward()});
  }

  /// Of the head's loss beside the streams and their gradient.
  [[nodiscard]] std::int64_t token_loss() const {
    BlockArrays head;
    site(head, false);
    const std::int64_t rows = std::min(graph::kLossRows, n_);
    const std::int64_t chunk = kFloatBytes * rows * (2 * c_.hidden_size + c_.vocab_size);
    return sum_of(head) + narrow() + std::max(chunk, site_backward());
  }

  [[nodiscard]] std::int64_t mtp_entry() const { return 2 * narrow() + 2 * streams(); }
  [[nodiscard]] std::int64_t mtp_entry_backward() const { return 3 * narrow() + 2 * streams(); }
  /// Cosines and sines of both kinds.
  [[nodiscard]] std::int64_t angles() const { return kNumRopeKinds * per_token(c_.qk_rope_head_dim); }

 private:
  static void add(BlockArrays& arrays, std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t size : sizes) arrays.push_back(size);
  }
  [[nodiscard]] std::int64_t per_token(std::int64_t values) const { return kFloatBytes * n_ * values; }
  /// [N, d]
  [[nodiscard]] std::int64_t narrow() const { return per_token(c_.hidden_size); }
  [[nodiscard]] std::int64_t mixes() const { return (2 + c_.hc_mult) * c_.hc_mult; }
  [[nodiscard]] std::int64_t num_entries(const LayerAttention& shape) const {
    return num_documents_ * shape.num_entries(length_);
  }
  /// Pairs of a query and an entry of its document.
  [[nodiscard]] std::int64_t num_pairs(const LayerAttention& shape) const {
    return n_ * shape.num_entries(length_);
  }
  [[nodiscard]] bool has_indexer_loss(const LayerAttention& shape) const {
    return shape.indexed && options_.indexer_weight != 0;
  }
  [[nodiscard]] bool scores(const LayerAttention& shape) const {
    const bool chooses =
        shape.indexed && !options_.dense_attention && shape.num_entries(length_) > shape.top_k;
    return chooses || has_indexer_loss(shape);
  }

  void site(BlockArrays& arrays, bool half_block) const {
    if (options_.plain_residual) return add(arrays, {narrow()});
    const std::int64_t streams = c_.hc_mult;
    if (half_block) {
      add(arrays, {per_token(mixes()), per_token(streams), per_token(streams * streams)});
    } else {
      add(arrays, {per_token(streams)});
    }
    add(arrays, {narrow(), narrow()});
  }

  void compressor(const LayerAttention& shape, std::int64_t width, bool runs, BlockArrays& arrays) const {
    const std::int64_t columns = runs ? per_token(shape.compressor_columns(width)) : 0;
    const std::int64_t entries = runs ? kFloatBytes * num_entries(shape) * width : 0;
    add(arrays, {columns, columns, entries, entries});
  }

  void attention(const LayerAttention& shape, BlockArrays& arrays) const {
    const std::int64_t wide = per_token(c_.q_dim()), rank = per_token(c_.q_lora_rank),
                       row = per_token(c_.head_dim);
    const bool indexes = scores(shape);
    add(arrays, {rounds_ ? narrow() : 0, rank, rank, wide, wide, row, row});
    compressor(shape, shape.head_dim, shape.compresses(), arrays);
    compressor(shape, shape.index_dim, indexes, arrays);
    add(arrays, {indexes ? per_token(shape.index_heads * shape.index_dim) : 0,
                 indexes ? per_token(shape.index_heads) : 0, indexes ? kFloatBytes * num_pairs(shape) : 0,
                 num_pairs(shape), has_indexer_loss(shape) ? kFloatBytes * num_pairs(shape) : 0});
    add(arrays, {wide, per_token(shape.num_heads), wide, per_token(c_.o_dim())});
  }

  void experts(BlockArrays& arrays) const {
    const std::int64_t k = c_.num_experts_per_tok, inner = per_token(c_.moe_intermediate_size);
    add(arrays, {per_token(c_.n_routed_experts), kIdBytes * n_ * k, per_token(k), kIndexBytes * n_ * k,
                 kIndexBytes * n_ * k, per_token(k), rounds_ ? narrow() : 0});
    add(arrays, {k * narrow(), k * inner, k * inner, k * inner, k * narrow(), inner, inner, inner});
  }

  [[nodiscard]] std::int64_t experts_backward() const {
    const std::int64_t k = c_.num_experts_per_tok, inner = per_token(c_.moe_intermediate_size);
    const std::int64_t slots = 2 * k * narrow() + 3 * k * inner + per_token(k);
    return slots + std::max(3 * inner, per_token(c_.n_routed_experts));
  }

  /// Two matrices of a tile's scores for each thread.
  [[nodiscard]] std::int64_t attention_tiles(const LayerAttention& shape) const {
    const std::int64_t keys = std::min(length_, shape.window_tokens + kAttentionTileQueries - 1);
    const std::int64_t rows = std::min(length_, kAttentionTileQueries) * shape.num_heads;
    return std::min(num_threads_, num_documents_) * 2 * kFloatBytes * rows *
           (keys + shape.num_entries(length_));
  }

  [[nodiscard]] std::int64_t attention_backward(const LayerAttention& shape) const {
    const std::int64_t wide = per_token(c_.q_dim()), rank = per_token(c_.q_lora_rank),
                       row = per_token(c_.head_dim);
    const std::int64_t arrays =
        per_token(c_.o_dim()) + 2 * wide + row + kFloatBytes * num_entries(shape) * c_.head_dim;
    const std::int64_t queries = wide + 2 * rank;
    const std::int64_t pooling =
        shape.compresses() ? 2 * per_token(shape.compressor_columns(shape.head_dim)) : 0;
    const std::int64_t indexer = has_indexer_loss(shape)
                                     ? per_token(shape.index_heads * (shape.index_dim + 1)) +
                                           kFloatBytes * num_entries(shape) * shape.index_dim +
                                           std::max(2 * per_token(shape.compressor_columns(shape.index_dim)),
                                                    std::min(num_threads_, num_documents_) * kFloatBytes *
                                                        length_ * shape.num_entries(length_))
                                     : 0;
    return arrays + std::max({attention_tiles(shape), queries, pooling, indexer});
  }

  [[nodiscard]] std::int64_t site_backward() const {
    return per_token(mixes()) + narrow() / graph::kLoopRows;
  }

  const ModelConfig& c_;
  const PassOptions& options_;
  std::int64_t num_documents_, length_, n_, num_threads_;
  bool rounds_;
};

}  // namespace

PassMemory pass_memory(const ModelConfig& config, std::int64_t num_rows, std::int64_t length,
                       const PassOptions& options, std::int64_t num_threads) {
  const PassSizes sizes(config, num_rows, length, options, num_threads);
  BlockArrays shared;
  std::int64_t blocks = 0, most_backward = 0;
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    const BlockArrays arrays = sizes.block(block);
    shared.resize(arrays.size());
    std::ranges::transform(shared, arrays, shared.begin(),
                           [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    blocks += sum_of(arrays);
    most_backward = std::max(most_backward, sizes.block_backward(block));
  }
  const bool keeps = !options.recompute && !options.indexers_alone;
  PassMemory memory;
  memory.kept_bytes = (keeps ? blocks : sum_of(shared)) + sizes.angles() +
                      (options.indexers_alone ? 2 : config.num_hidden_layers + 1) * sizes.streams();
  const std::int64_t gradient = sizes.streams();  // of the last streams
  std::vector<std::int64_t> moments{gradient + sizes.token_loss()};
  if (!options.indexers_alone)
    moments.push_back((keeps ? 1 : 2) * sizes.streams() + gradient + most_backward);
  if (config.num_nextn_predict_layers > 0 && options.mtp_weight != 0) {
    // A document's last token has no row; one row less of `length` changes little.
    const std::int64_t block = config.num_hidden_layers;
    const std::int64_t held =
        gradient + sizes.mtp_entry() + sum_of(sizes.block(block)) + 3 * sizes.streams() + sizes.angles();
    moments.push_back(held + sizes.token_loss());
    if (!options.indexers_alone)
      moments.push_back(held + sizes.streams() +
                        std::max(sizes.block_backward(block), sizes.mtp_entry_backward()));
  }
  memory.work_bytes = *std::ranges::max_element(moments);
  return memory;
}

}  // namespace baleen
