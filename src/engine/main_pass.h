/// The main layers over a batch: streams of its rows, and logits of those that are wanted. Of ranks that
/// share out rows, each has all of them here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/device_model.h"
#include "engine/engine_options.h"
#include "forward/forward.h"
#include "kv_cache/kv_cache.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Not thread-safe.
class MainPass {
 public:
  /// What it takes of an arena beside `Forward`'s arrays, for these rows, of activations of `type`. `shares`:
  /// rows of a step where ranks share them out; else 0.
  [[nodiscard]] static std::int64_t buffer_bytes(const ModelConfig& config, std::int64_t logit_rows,
                                                 std::int64_t shared_rows, ElementType type);

  /// Takes its arrays from `arena`. All of them outlive this.
  MainPass(DeviceModel& model, const KvCache& cache, const EngineOptions& options, Arena& arena);

  /// Streams [rows, n, d] after the last layer, valid until the next call. Of a stage before the last only
  /// the next one has use of them. `chosen`: of a batch with tokens that operations called before leave there
  /// (StepBatches::begin). `decoder`: the rows of the decoder half, whose streams these then are; nothing: it
  /// has all.
  [[nodiscard]] ConstActivations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                        const std::optional<DecoderRows>& decoder);
  /// Logits [rows, V] of these rows of streams, in the order of `rows`; at most max_logit_rows.
  void logits(ConstActivations<3> streams, std::span<const std::int64_t> rows, Activations<2> out);
  /// Runs the batch again, looking at these rows, of those that `run` returns, after every block: the first
  /// block of the whole model with values that are not finite, of those that this device runs.
  [[nodiscard]] std::optional<std::int64_t> first_bad_block(const RaggedBatch& batch,
                                                            const std::optional<DecoderRows>& decoder,
                                                            std::span<const std::int64_t> rows);

  /// How many tokens each block sent to each routed expert of the model, rows of [blocks, E]; drafts count
  /// too. Waits for the device, as does the next.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() const { return forward_.expert_load(); }
  /// The same of the experts that this device has, rows of [blocks, experts of the device].
  [[nodiscard]] std::vector<std::vector<std::int64_t>> own_expert_load() const;

  /// Prepares steps of `num_rows` rows.
  void capture(std::int64_t num_rows) { forward_.capture(num_rows); }

  // What a draft head works with.
  [[nodiscard]] Forward& forward() { return forward_; }
  /// [max_batch_tokens, padded, n d] where ranks share out rows; else empty. In use while `run` is.
  [[nodiscard]] const Activations<2>& all_streams() const { return all_streams_; }
  /// [max_logit_rows, n d], in use while `logits` is.
  [[nodiscard]] const Activations<2>& wanted_streams() const { return wanted_streams_; }

 private:
  [[nodiscard]] ConstActivations<3> all_rows(const ConstActivations<3>& kept);
  /// What collapses the rows of the latest pass, of all of them.
  [[nodiscard]] ConstActivations<2> left_mixing();
  [[nodiscard]] Activations<2> allocate_streams(std::int64_t num_rows, Arena& arena) const;
  [[nodiscard]] Activations<2> allocate_mixing(std::int64_t num_rows, Arena& arena) const;
  /// Rows of n d values as streams [rows, n, d].
  [[nodiscard]] ConstActivations<3> stacked(const ConstActivations<2>& streams) const;

  DeviceModel& model_;
  Forward forward_;
  Activations<2> wanted_streams_;
  Activations<2> all_streams_;
  // What collapses those streams, [rows, n]; empty where that has weights of its own.
  Activations<2> wanted_mixing_;
  Activations<2> all_mixing_;
};

}  // namespace baleen
