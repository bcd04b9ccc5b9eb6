/// One step on one rank: a ragged batch of sequences in, logits out.
///
/// A sequence is opened, fed with tokens in steps of any size (prompt chunks and single tokens mixed with
/// those of other sequences), and closed. Its logits are the same to the bit however it was cut and whatever
/// ran beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/cpu_device.h"
#include "engine/memory_plan.h"
#include "engine/step_engine.h"
#include "kv_cache/sequence_pages.h"
#include "model/forward.h"
#include "model/weights.h"

namespace baleen {

/// Not thread-safe: one caller steps, all processors work.
class Engine {
 public:
  /// Maps the checkpoint and reserves memory by the plan. Throws `Error`.
  Engine(const std::filesystem::path& folder, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }
  [[nodiscard]] const ModelWeights& weights() const { return weights_; }
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }
  CpuDevice& device() { return device_; }

  /// Empty when max_sequences are open.
  [[nodiscard]] std::optional<SequenceId> open();
  void close(SequenceId sequence);
  [[nodiscard]] std::int64_t length(SequenceId sequence) const;
  /// Positions one sequence can have when it has the cache to itself.
  [[nodiscard]] std::int64_t context_tokens() const;

  /// Runs one step. A failure leaves every sequence as it was, except after non-finite logits (the message
  /// names the first layer, or the MTP block), when the sequences of the step are spoilt and must be closed.
  /// Expected failures: an id outside the vocabulary, more tokens than a step or the context holds, no free
  /// pages.
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs);

  /// For benchmarks: makes an empty sequence look as if it had seen `num_positions` tokens, with random cache
  /// rows. Throws `Error` when the cache has no room for them.
  void fabricate_history(SequenceId sequence, std::int64_t num_positions);

 private:
  struct Sequence {
    SequencePages pages;
    std::int64_t length = 0;
    float* last_stream = nullptr;  ///< [n, d] of the last position, engines with `mtp`
  };

  [[nodiscard]] std::optional<Failure> check(std::span<const StepInput> inputs);
  /// Pages for every input's tokens, or for none.
  [[nodiscard]] std::optional<Failure> take_pages(std::span<const StepInput> inputs);
  [[nodiscard]] ConstActivations<2> run_mtp(std::span<const StepInput> inputs, ConstActivations<3> streams);
  [[nodiscard]] std::string first_bad_layer() const;

  ModelWeights weights_;
  EngineOptions options_;
  MemoryPlan plan_;
  KvCache cache_;
  CpuDevice device_;
  Arena arena_;
  Forward forward_;
  Activations<3> wanted_streams_;  ///< [max_logit_rows, n, d]
  Activations<2> logits_;
  Activations<2> mtp_logits_;
  Activations<3> mtp_inputs_;    ///< [max_batch_tokens, n, d]
  Activations<3> last_streams_;  ///< [max_sequences, n, d]
  std::map<SequenceId, Sequence> sequences_;
  std::int64_t next_id_ = 0;

  // Of the step in progress.
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<std::int64_t> wanted_rows_;
  std::optional<std::int64_t> bad_block_;
};

}  // namespace baleen
