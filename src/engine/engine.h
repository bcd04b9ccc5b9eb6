/// The engine of a machine's user: a ragged batch of sequences in, logits out.
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
#include "device/device.h"
#include "engine/device_model.h"
#include "engine/engine_options.h"
#include "engine/identified_disk.h"
#include "engine/memory_plan.h"
#include "engine/model_engine.h"
#include "engine/model_runner.h"
#include "model/weights.h"

namespace baleen {

/// The whole model on one device. Not thread-safe: one caller steps, all processors work.
class Engine final : public ModelEngine {
 public:
  /// Maps the checkpoint and reserves memory by the plan; on a device of its own memory, also copies the
  /// weights there. Throws `Error`.
  Engine(const std::filesystem::path& folder, const EngineOptions& options);
  /// The same of weights that are at hand.
  Engine(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const ModelConfig& config() const override { return weights_->config(); }
  [[nodiscard]] const ModelWeights& weights() const { return *weights_; }
  [[nodiscard]] const EngineOptions& options() const override { return options_; }
  [[nodiscard]] const MemoryPlan& plan() const override { return model_.plan(); }
  [[nodiscard]] std::string memory_text() const override { return to_text(plan()); }
  [[nodiscard]] Device& device() override { return model_.device(); }
  /// Null where all experts lie in one memory.
  [[nodiscard]] ExpertStore* experts() const { return model_.experts(); }
  /// Null where no layer reads tables of n-grams.
  [[nodiscard]] const EngramStore* engram() const { return model_.engram(); }
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() override {
    return runner_.expert_load();
  }
  [[nodiscard]] std::optional<DiskTierStats> disk_stats() const override;
  [[nodiscard]] std::optional<ExpertPlaceStats> expert_places() const override {
    return model_.expert_places();
  }

  [[nodiscard]] EngineLimits limits() const override { return runner_.limits(); }
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override;
  [[nodiscard]] std::optional<SequenceId> open_prompt(std::span<const TokenId> tokens,
                                                      std::int64_t prompt_tokens) override;
  void foresee(SequenceId sequence, std::span<const TokenId> tokens) override;
  void keep_tail(SequenceId sequence, std::int64_t end) override;
  [[nodiscard]] PrefixLookup lookup(SequenceId sequence) const override;
  [[nodiscard]] std::int64_t length(SequenceId sequence) const override;
  [[nodiscard]] bool reserve(SequenceId sequence, std::int64_t num_tokens) override;
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs) override;
  [[nodiscard]] std::optional<Failure> queue(std::span<const StepInput> inputs) override;
  [[nodiscard]] Result<StepOutput> collect() override;
  void truncate(SequenceId sequence, std::int64_t length) override;
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth) override;
  void share(SequenceId sequence) override;
  void close(SequenceId sequence, bool keep) override;
  [[nodiscard]] CacheUse cache_use() const override;
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t most_nodes) const override;

  void fabricate_history(SequenceId sequence, std::int64_t num_positions) override;

 private:
  [[nodiscard]] std::unique_ptr<IdentifiedDisk> open_disk() const;
  /// Gives the disk tier to the sequences as soon as there is one.
  void take_disk();
  /// Of a step whose logits are not finite: looks for the first layer.
  [[nodiscard]] Failure locate_bad_logits();

  std::shared_ptr<const ModelWeights> weights_;
  EngineOptions options_;
  DeviceModel model_;
  std::unique_ptr<IdentifiedDisk> disk_;  ///< null without; outlives the runner's sequences
  ModelRunner runner_;
};

}  // namespace baleen
