/// One step on one rank: a ragged batch of sequences in, logits out.
///
/// A sequence is opened, fed with tokens in steps of any size (prompt chunks and single tokens mixed with
/// those of other sequences), and closed. Its logits are the same to the bit however it was cut, whatever
/// ran beside it, and whether its beginning was computed or found in the prefix cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/cpu_device.h"
#include "engine/kept_streams.h"
#include "engine/memory_plan.h"
#include "engine/sequence_table.h"
#include "engine/step_engine.h"
#include "model/forward.h"
#include "model/weights.h"

namespace baleen {

/// Not thread-safe: one caller steps, all processors work.
class Engine final : public StepEngine {
 public:
  /// Maps the checkpoint and reserves memory by the plan. Throws `Error`.
  Engine(const std::filesystem::path& folder, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }
  [[nodiscard]] const ModelWeights& weights() const { return weights_; }
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }
  /// Also keeps the profile of operations, if that is wanted.
  CpuDevice& device() { return device_; }
  /// How many tokens each block sent to each routed expert since the start [blocks, E]; drafts count too.
  [[nodiscard]] View<const std::int64_t, 2> expert_load() const { return forward_.expert_load(); }
  /// Nothing without a disk tier.
  [[nodiscard]] std::optional<DiskTierStats> disk_stats() const;
  /// Positions one sequence can have when it has the cache to itself.
  [[nodiscard]] std::int64_t context_tokens() const;

  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override;
  [[nodiscard]] std::int64_t length(SequenceId sequence) const override;
  [[nodiscard]] bool reserve(SequenceId sequence, std::int64_t num_tokens) override;
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs) override;
  void truncate(SequenceId sequence, std::int64_t length) override;
  [[nodiscard]] Result<ConstActivations<2>> draft(std::span<const DraftInput> inputs,
                                                  std::int64_t depth) override;
  void share(SequenceId sequence) override;
  void close(SequenceId sequence, bool keep) override;
  [[nodiscard]] CacheUse cache_use() const override;
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t most_nodes) const override;

  /// For benchmarks: makes an empty sequence look as if it had seen `num_positions` tokens, with random cache
  /// rows; not to be kept. Throws `Error` when the cache has no room for them.
  void fabricate_history(SequenceId sequence, std::int64_t num_positions);

 private:
  [[nodiscard]] std::unique_ptr<DiskTier> open_disk_tier() const;
  void allocate_activations();
  [[nodiscard]] std::optional<Failure> check(std::span<const StepInput> inputs) const;
  [[nodiscard]] std::optional<Failure> check_token(TokenId token, std::int64_t position) const;
  /// Pages for every input's tokens, or for none.
  [[nodiscard]] std::optional<Failure> take_pages(std::span<const StepInput> inputs);
  [[nodiscard]] Failure no_room(std::int64_t position) const;
  void lay_out(std::span<const StepInput> inputs);
  [[nodiscard]] std::string first_bad_layer() const;
  [[nodiscard]] static Failure bad_mtp_block();

  /// The MTP block over a step, and logits of its rows where all are wanted.
  [[nodiscard]] ConstActivations<2> run_mtp(std::span<const StepInput> inputs, ConstActivations<3> streams);
  /// Where a step ends with a page, the MTP row of its last position waits for the next token: whoever gets the
  /// page meanwhile must not find old bytes there.
  void clear_due_mtp_rows();

  ModelWeights weights_;
  EngineOptions options_;
  MemoryPlan plan_;
  KvCache cache_;
  std::unique_ptr<DiskTier> disk_;
  SequenceTable sequences_;
  CpuDevice device_;
  Arena arena_;
  Forward forward_;
  Activations<3> wanted_streams_;  ///< [max_logit_rows, n, d]
  Activations<2> logits_;

  // Engines with `mtp`.
  Activations<2> mtp_logits_;
  Activations<3> mtp_inputs_;     ///< [max_batch_tokens, n, d]
  KeptStreams last_streams_;      ///< of the main layers, what a truncation may leave as last included
  Activations<3> draft_streams_;  ///< [max_sequences, n, d] the MTP block's own, of the last `draft`

  // Of the step in progress.
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<std::int64_t> wanted_rows_;
  std::optional<std::int64_t> bad_block_;
};

/// Whether no value is infinite or NaN.
[[nodiscard]] bool all_finite(std::span<const float> values);

/// All streams of a row.
[[nodiscard]] inline std::span<const float> row_of(ConstActivations<3> streams, std::int64_t row) {
  return {streams.data() + row * streams.stride(0), static_cast<std::size_t>(streams.stride(0))};
}

}  // namespace baleen
