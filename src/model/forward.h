/// The forward pass, written once as a sequence of operations on a device.   (source: forward-pass
/// specification 3 to 8)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "kv_cache/kv_cache.h"
#include "model/config.h"
#include "model/expert_store.h"
#include "model/forward_buffers.h"
#include "model/weight_tree.h"
#include "numeric/dtype.h"
#include "ops/operation/step_shape.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Cache rows and rings that `config` needs in `precision`.
[[nodiscard]] CacheGeometry cache_geometry(const ModelConfig& config, Precision precision,
                                           std::int64_t max_draft_tokens = 0);

/// Extents of a step of `max_rows` rows, of which `max_logit_rows` want logits, for a device's scratch.
[[nodiscard]] StepShape step_shape(const ModelConfig& config, std::int64_t max_rows,
                                   std::int64_t max_logit_rows, std::int64_t max_sequences,
                                   std::int64_t max_positions);

class Forward {
 public:
  /// All of them must outlive this; weights, cache and `arena`, which has forward_buffer_bytes(config, max_rows,
  /// device.traits().activation_type) left, lie in the device's memory.
  Forward(const ModelConfig& config, const WeightTree& weights, Device& device, const KvCache& cache,
          Precision precision, std::int64_t max_rows, Arena& arena);

  /// Runs the main layers over a batch of at most max_rows rows; returns the residual streams [T, n, d] after
  /// the last one, valid until the next call. Cache rows of the batch's positions are written on the way.
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch);
  /// The same of a batch with tokens that operations called before leave at `chosen` (StepBatches::begin).
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen);

  /// Runs MTP block `depth` over positions whose streams are known: row t holds the stream of its position
  /// and batch.tokens[t] is the token after it. Returns the block's own streams, valid until the next call.
  [[nodiscard]] Activations<3> run_mtp(const RaggedBatch& batch, ConstActivations<3> streams,
                                       std::int64_t depth);

  /// Prepares steps of `num_rows` rows, of the main layers and with `mtp` of the MTP block, so that the device runs them as
  /// quickly as it can. `mtp_streams` is what run_mtp will be given.
  void capture(std::int64_t num_rows, bool mtp, ConstActivations<3> mtp_streams);

  /// Logits [R, V] of R rows of streams [R, n, d], R at most max_rows.
  void logits(ConstActivations<3> streams, Activations<2> out);
  void mtp_logits(ConstActivations<3> streams, std::int64_t depth, Activations<2> out);

  /// Steps of many tokens use the copies that `experts`, which must outlive this, makes for them; null: there are none.
  void set_experts(ExpertStore* experts) { experts_ = experts; }
  /// How many tokens were sent to each routed expert since the start, as rows of [blocks, E]; every run counts. Waits for
  /// the device.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() const;

  /// Called after each block of the main layers with its streams, if set: tests and the search for the first non-finite
  /// layer.
  using BlockObserver = void (*)(void* context, std::int64_t block, ConstActivations<3> streams);
  void observe_blocks(BlockObserver observer, void* context) {
    observer_ = observer;
    observer_context_ = context;
  }

 private:
  /// A batch as the operations get it: on a device that pads, with more rows than the caller has.
  struct Step {
    RaggedBatch batch;
    StepRows rows;
  };

  [[nodiscard]] Activations<3> run_step(const Step& step);
  [[nodiscard]] Activations<3> run_main(const Step& step);
  [[nodiscard]] Activations<3> run_mtp(const Step& step, ConstActivations<3> streams, std::int64_t depth);
  /// Rotation angles of the batch's positions, both variants.
  void prepare_angles(const Step& step);
  /// Blocks [begin, end) over `streams`.
  void run_blocks(std::int64_t begin, std::int64_t end, const Step& step, Activations<3> streams);
  void combine_for_mtp(const MtpWeights& weights, const Step& step, ConstActivations<3> streams,
                       Activations<3> out);
  void attention(std::int64_t block, const Step& step);
  void compress(std::int64_t block, const LayerAttention& shape, const Step& step);
  void project_queries(const AttentionWeights& weights, const LayerAttention& shape, std::int64_t num_rows);
  void moe(std::int64_t block, const Step& step);
  [[nodiscard]] std::span<const float> frequencies(RopeKind kind) const;
  void head(ConstActivations<3> streams, const HcWeights& hc, std::span<const float> norm,
            Activations<2> out);

  const ModelConfig& config_;
  const WeightTree& weights_;
  Device& device_;
  const KvCache& cache_;
  Precision precision_;
  ForwardBuffers buffers_;
  ExpertStore* experts_ = nullptr;
  BlockObserver observer_ = nullptr;
  void* observer_context_ = nullptr;
};

}  // namespace baleen
