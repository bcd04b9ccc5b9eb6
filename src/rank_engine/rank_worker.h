/// One rank of several: its share of the model on its device, and the parts of what the driver has all of
/// them do. All ranks make the same calls; those of a data-parallel group for the same sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "device/make_device.h"
#include "engine/device_model.h"
#include "engine/engine_options.h"
#include "engine/memory_plan.h"
#include "engine/model_runner.h"
#include "engine/sequence_table.h"
#include "engine/step_engine.h"
#include "model/rank_layout.h"
#include "model/rank_weights.h"
#include "model/weights.h"
#include "moe/residence/staged_experts.h"
#include "rank_engine/state_transfers.h"

namespace baleen {

/// Not thread-safe: one caller steps, all processors of the rank work.
class RankWorker {
 public:
  /// Of weights that are the whole model's, the part of `layout`. `communicator`, to the other ranks, and
  /// `peers`, a GPU's way to them, outlive this. Returns when all ranks have what they allocate. Throws
  /// `Error`.
  /// `host_tables`: of the ranks of this process; null: there are no others.
  RankWorker(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options, RankLayout layout,
             Communicator& communicator, const PeerRank* peers,
             std::shared_ptr<SharedEngramTables> host_tables = nullptr);
  RankWorker(const RankWorker&) = delete;
  RankWorker& operator=(const RankWorker&) = delete;

  /// Of the whole model.
  [[nodiscard]] const ModelConfig& config() const { return whole_->config(); }
  [[nodiscard]] const ModelWeights& whole_weights() const { return *whole_; }
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] const RankLayout& layout() const { return layout_; }
  [[nodiscard]] const MemoryPlan& plan() const { return model_.plan(); }
  [[nodiscard]] Device& device() { return model_.device(); }
  /// Weights that are copies in the host's memory, because their columns are split; all others are views.
  [[nodiscard]] std::int64_t copied_weight_bytes() const { return weights_ ? weights_->copied_bytes() : 0; }
  /// Of this rank's blocks and the tokens that it routes.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() const { return runner_.expert_load(); }
  [[nodiscard]] std::optional<ExpertPlaceStats> expert_places() const { return model_.expert_places(); }

  /// Those of the data-parallel group; they are opened and closed by the next two.
  [[nodiscard]] SequenceTable& sequences() { return runner_.sequences(); }
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt, std::int64_t decoder_begin) {
    return runner_.open(prompt, decoder_begin);
  }
  void close(SequenceId sequence, bool keep);
  void fabricate_history(SequenceId sequence, std::int64_t num_positions);

  // The parts of a step. A group without rows calls them too, with no inputs. Between the last two, failures
  // of other ranks are learned.
  /// Finds what is wrong and takes pages.
  [[nodiscard]] std::optional<Failure> prepare(std::span<const StepInput> inputs) {
    return runner_.prepare(inputs);
  }
  /// What the group's rows ask of the decoder half; the next wants that of all groups.
  [[nodiscard]] DecoderUse decoder_use(std::span<const StepInput> inputs) const {
    return runner_.decoder_use(inputs);
  }
  /// Stages before the last have no logits. Those that are not finite are a failure which does not say where
  /// they began: the search, in which all ranks take part, is the driver's to begin.
  [[nodiscard]] Result<StepOutput> compute(std::span<const StepInput> inputs, DecoderUse use);
  /// Makes the tokens a part of their sequences.
  void commit(std::span<const StepInput> inputs) { runner_.commit(inputs); }
  /// Runs what was computed again: the first block of the whole model, among those of this rank, whose values
  /// are not finite.
  [[nodiscard]] std::optional<std::int64_t> first_bad_block() { return runner_.first_bad_block(); }

  /// A step that runs ahead, prepared. `num_links`: the drafts that the inputs of any group have at most.
  void begin(std::span<const StepInput> inputs, std::int64_t num_links, DecoderUse use) {
    runner_.begin(inputs, num_links, use);
  }
  /// The oldest of those; fails as `compute`.
  [[nodiscard]] Result<StepOutput> collect();

  /// What `draft` refuses.
  [[nodiscard]] std::optional<Failure> check_drafts(std::span<const DraftInput> inputs,
                                                    std::int64_t depth) const {
    return runner_.check_drafts(inputs, depth);
  }
  /// Stages before the last have none.
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth);

  /// Makes other expert maps ready, of this rank's layers among `experts`, while those in force stay. A
  /// failure leaves nothing staged. Where the device reads the checkpoint's map only addresses change; to the
  /// memory of a device it begins to bring the experts' bytes, of one layer at a time.
  [[nodiscard]] std::optional<Failure> stage_experts(std::span<const BlockExperts> experts);
  /// Between two passes: what all ranks have staged is in force, or forgotten.
  void place_experts();
  void drop_experts();

  /// Of ranks with prefill groups.
  [[nodiscard]] StateTransfers& transfers() { return *transfers_; }

 private:
  [[nodiscard]] ModelShare share(Communicator& communicator, const PeerRank* peers,
                                 std::shared_ptr<SharedEngramTables> host_tables) const;
  /// Null where experts stay, or the device reads the host's memory.
  [[nodiscard]] std::unique_ptr<StagedExperts> open_staging() const;
  /// Null without prefill groups.
  [[nodiscard]] std::unique_ptr<StateTransfers> open_transfers(Communicator& communicator);
  /// A kernel that waits for another GPU must not hold up its allocations: waits until every rank has made
  /// them.
  void meet(Communicator& communicator) const;

  std::shared_ptr<const ModelWeights> whole_;
  EngineOptions options_;
  RankLayout layout_;
  RankConfig rank_config_;
  std::unique_ptr<RankWeights>
      weights_;  ///< lie in the host's memory; null once the device needs them no more
  DeviceModel model_;
  std::unique_ptr<StagedExperts> staged_experts_;
  ModelRunner runner_;
  std::unique_ptr<StateTransfers> transfers_;
};

}  // namespace baleen
