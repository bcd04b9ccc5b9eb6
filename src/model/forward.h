/// The forward pass, written once as a sequence of operations on a device.   (source: forward-pass
/// specification 3 to 8)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "kv_cache/kv_cache.h"
#include "model/forward_buffers.h"
#include "model/weights.h"
#include "numeric/dtype.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Cache rows and rings that `config` needs in `precision`.
[[nodiscard]] CacheGeometry cache_geometry(const ModelConfig& config, Precision precision,
                                           std::int64_t max_draft_tokens = 0);

/// Scratch of the largest operation of a step of `max_rows` rows, of which `max_logit_rows` want logits.
[[nodiscard]] std::int64_t forward_scratch_bytes(const ModelConfig& config, std::int64_t max_rows,
                                                 std::int64_t max_logit_rows, int num_threads);

class Forward {
 public:
  /// All three must outlive this. `arena` has forward_buffer_bytes(config, max_rows) left.
  Forward(const ModelWeights& weights, Device& device, const KvCache& cache, Precision precision,
          std::int64_t max_rows, Arena& arena);

  /// Runs the main layers over a batch of at most max_rows rows; returns the residual streams [T, n, d] after
  /// the last one, valid until the next call. Cache rows of the batch's positions are written on the way.
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch);

  /// Runs MTP block `depth` over positions whose streams are known: row t holds the stream of its position
  /// and batch.tokens[t] is the token after it. Returns the block's own streams, valid until the next call.
  [[nodiscard]] Activations<3> run_mtp(const RaggedBatch& batch, ConstActivations<3> streams,
                                       std::int64_t depth);

  /// Logits [R, V] of R rows of streams [R, n, d], R at most max_rows.
  void logits(ConstActivations<3> streams, Activations<2> out);
  void mtp_logits(ConstActivations<3> streams, std::int64_t depth, Activations<2> out);

  /// How many tokens were sent to each routed expert since the start [blocks, E]; every run counts.
  [[nodiscard]] View<const std::int64_t, 2> expert_load() const {
    return {expert_load_.data(), {config_.num_blocks(), config_.n_routed_experts}};
  }

  /// Called after each block with its streams, if set: tests and the search for the first non-finite layer.
  using BlockObserver = void (*)(void* context, std::int64_t block, ConstActivations<3> streams);
  void observe_blocks(BlockObserver observer, void* context) {
    observer_ = observer;
    observer_context_ = context;
  }

 private:
  /// Rotation angles of the batch's positions, both variants.
  void prepare_angles(const RaggedBatch& batch);
  void run_block(std::int64_t block, const RaggedBatch& batch, Activations<3> streams);
  void attention(std::int64_t block, const RaggedBatch& batch);
  void compress(std::int64_t block, const RaggedBatch& batch);
  void project_queries(const AttentionWeights& weights, LayerKind kind, std::int64_t num_rows, int angles);
  void moe(std::int64_t block, const RaggedBatch& batch);
  void count_experts(std::int64_t block, View<const std::int32_t, 2> ids);
  void head(ConstActivations<3> streams, const HcWeights& hc, std::span<const float> norm,
            Activations<2> out);

  const ModelWeights& weights_;
  const ModelConfig& config_;
  Device& device_;
  const KvCache& cache_;
  Precision precision_;
  ForwardBuffers buffers_;
  std::vector<float> frequencies_[2];  ///< 0: plain, 1: YaRN with the compress base
  std::vector<std::int64_t> expert_load_;
  BlockObserver observer_ = nullptr;
  void* observer_context_ = nullptr;
};

}  // namespace baleen
