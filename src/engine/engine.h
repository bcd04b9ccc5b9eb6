/// One step on one rank: a ragged batch of sequences in, logits out.
///
/// A sequence is opened, fed with tokens in steps of any size (prompt chunks and single tokens mixed with
/// those of other sequences), and closed. Its logits are the same to the bit however it was cut, whatever
/// ran beside it, and whether its beginning was computed or found in the prefix cache.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "drafts/draft_head.h"
#include "engine/engine_options.h"
#include "engine/engine_rank.h"
#include "engine/identified_disk.h"
#include "engine/memory_plan.h"
#include "engine/model_engine.h"
#include "engine/sequence_table.h"
#include "engine/state_transfers.h"
#include "forward/forward.h"
#include "model/device_weights.h"
#include "model/rank_weights.h"
#include "model/weights.h"
#include "moe/residence/staged_experts.h"
#include "ops/gather_rows/gather_rows.h"

namespace baleen {

/// Not thread-safe: one caller steps, all processors work.
class Engine final : public ModelEngine {
 public:
  /// Maps the checkpoint and reserves memory by the plan; on a device of its own memory, also copies the
  /// weights there. Throws `Error`.
  Engine(const std::filesystem::path& folder, const EngineOptions& options);
  /// The same of weights that are at hand, the whole model's; a rank among others uses its part of them.
  /// All ranks make the same calls, those of a data-parallel group for the same sequences; their steps are
  /// made of `prepare`, `compute` and `commit`.
  Engine(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options, EngineRank rank = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const ModelConfig& config() const override { return weights_->config(); }
  [[nodiscard]] const ModelWeights& weights() const { return *weights_; }
  [[nodiscard]] const EngineOptions& options() const override { return options_; }
  [[nodiscard]] const MemoryPlan& plan() const override { return plan_; }
  [[nodiscard]] std::string memory_text() const override { return to_text(plan_); }
  [[nodiscard]] Device& device() override { return *device_; }
  /// Null where all experts lie in one memory.
  [[nodiscard]] ExpertStore* experts() const { return expert_store_.get(); }
  /// Of this rank's blocks and the tokens that it routes.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() override {
    return forward_.expert_load();
  }
  [[nodiscard]] std::optional<DiskTierStats> disk_stats() const override;
  [[nodiscard]] std::optional<ExpertPlaceStats> expert_places() const override;

  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override;
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

  // Of a rank among others (engine_rank.cc).
  [[nodiscard]] const RankLayout& layout() const { return rank_.layout; }
  /// Tokens of `prompt` that `open` would find in memory.
  [[nodiscard]] std::int64_t cached_tokens(std::span<const TokenId> prompt) {
    return sequences_.cached_tokens(prompt);
  }
  /// Weights that are copies in the host's memory, because their columns are split; all others are views.
  [[nodiscard]] std::int64_t copied_weight_bytes() const {
    return rank_weights_ ? rank_weights_->copied_bytes() : 0;
  }
  /// Makes other expert maps ready, of this rank's layers among `experts`, while those in force stay. A
  /// failure leaves nothing staged. Where the device reads the checkpoint's map only addresses change; to the
  /// memory of a device it begins to bring the experts' bytes, of one layer at a time.
  [[nodiscard]] std::optional<Failure> stage_experts(std::span<const BlockExperts> experts);
  /// Between two passes: what all ranks have staged is in force, or forgotten.
  void place_experts();
  void drop_experts();
  /// Room for a sequence whose positions before `end` arrive from another group, as SequenceTable::expect.
  [[nodiscard]] bool expect(SequenceId sequence, std::int64_t end) {
    return sequences_.expect(sequence, end);
  }
  /// Of ranks with prefill groups.
  [[nodiscard]] StateTransfers& transfers() { return *transfers_; }
  /// The parts of `step`: finds what is wrong and takes pages; runs, with a failure for what is not a number;
  /// makes the tokens a part of their sequences. Between the last two, failures of other ranks are learned.
  /// A group without rows calls them too, with no inputs. Stages before the last have no logits.
  [[nodiscard]] std::optional<Failure> prepare(std::span<const StepInput> inputs);
  [[nodiscard]] Result<StepOutput> compute(std::span<const StepInput> inputs);
  void commit(std::span<const StepInput> inputs);
  /// `queue` after `prepare`. `num_links`: the drafts that the inputs of any group have at most.
  void begin(std::span<const StepInput> inputs, std::int64_t num_links);
  /// Runs what was computed again, looking at the wanted rows after every block: the first block of the whole
  /// model with values that are not finite.
  [[nodiscard]] std::optional<std::int64_t> first_bad_block();
  /// What `draft` refuses.
  [[nodiscard]] std::optional<Failure> check_drafts(std::span<const DraftInput> inputs,
                                                    std::int64_t depth) const;

 private:
  [[nodiscard]] std::unique_ptr<IdentifiedDisk> open_disk() const;
  /// Gives the disk tier to the sequences as soon as there is one.
  void take_disk();
  /// All that decides what bytes a page has for given tokens, but for the weights.
  [[nodiscard]] std::string page_traits() const;
  void allocate_activations();
  /// As the device reads them: a copy there, this rank's part, or the checkpoint's map.
  [[nodiscard]] const WeightTree& device_tree() const;
  /// Where experts lie in two memories: now and then, those that are used much change places with those that
  /// are not.
  void improve_placement();
  /// How many of the tokens that this rank routes chose each expert that it has, rows of [blocks, experts of
  /// the rank]. Waits for the device.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> own_load() const;
  /// Throws `LostDevice` when what was computed may lack bytes of the checkpoint.
  void check_reads() const;
  /// Prepares the sizes that decoding steps have, with a progress line.
  void capture_steps();
  /// Waits until every rank has what it allocates: a kernel that waits for another GPU must not hold up its
  /// allocations.
  void meet() const;
  /// Streams of all rows of the latest pass, of which this rank has those that it keeps.
  [[nodiscard]] ConstActivations<3> all_rows(ConstActivations<3> kept);
  /// Those of `rows` that this rank keeps.
  [[nodiscard]] Activations<2> kept_of(const Activations<2>& rows) const {
    const RowRange kept = rank_.layout.kept(rows.extent(0));
    return rows.slice(kept.begin, kept.end);
  }
  /// Whether the ranks of other data-parallel groups wait for this one.
  [[nodiscard]] bool is_awaited() const { return rank_.layout.plan().dp > 1; }
  /// Logits or chosen tokens of a step; whether they are numbers.
  [[nodiscard]] bool read_results(std::span<const StepInput> inputs, ConstActivations<3> streams,
                                  StepOutput& output);
  /// Rows of n d values as streams [rows, n, d].
  [[nodiscard]] ConstActivations<3> stacked(const ConstActivations<2>& streams) const;
  [[nodiscard]] std::optional<Failure> check(std::span<const StepInput> inputs) const;
  [[nodiscard]] std::optional<Failure> check_token(TokenId token, std::int64_t position) const;
  /// Pages for every input's tokens, or for none.
  [[nodiscard]] std::optional<Failure> take_pages(std::span<const StepInput> inputs);
  [[nodiscard]] Failure no_room(std::int64_t position) const;
  void lay_out(std::span<const StepInput> inputs);
  /// Logits of the rows that the step wants, on the device: those of inputs with draws first.
  [[nodiscard]] Activations<2> last_logits(ConstActivations<3> streams);
  [[nodiscard]] Failure not_numbers();
  /// Which choice of the step queued last is a sequence's next token; none if that step chooses none for it.
  [[nodiscard]] std::optional<std::int64_t> choice_of(SequenceId sequence) const;
  /// Room for the tokens that a queued step chooses.
  [[nodiscard]] std::span<TokenId> choices(std::size_t place) const;
  [[nodiscard]] Failure bad_drafts() const;

  /// Shows the draft head a step; its logits of rows where all are wanted.
  /// `chosen`: what tokens of the step stand for (StepBatches::begin).
  [[nodiscard]] ConstActivations<2> follow(std::span<const StepInput> inputs, ConstActivations<3> streams,
                                           std::span<const TokenId> chosen);
  /// One link of chains of drafts: logits [inputs, V] on the device.
  [[nodiscard]] Activations<2> draft_logits(std::span<const DraftInput> inputs, std::int64_t depth,
                                            std::span<const TokenId> chosen);
  /// Queues the chains of drafts of a step; each input's places in `drafted`, where the device leaves them.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> queue_drafts(std::span<const StepInput> inputs,
                                                                    std::int64_t num_links,
                                                                    std::span<TokenId> drafted);
  /// Copies rows of streams: to[pair.to] = from[pair.from].
  void gather(ConstActivations<2> from, std::span<const RowPair> pairs, Activations<2> to);
  /// Logits where the host can read them, once the device has them.
  [[nodiscard]] ConstActivations<2> read_back(const Activations<2>& logits, float* host_copy);
  /// The tokens that `draws` choose from as many rows of logits, without these leaving the device.
  [[nodiscard]] std::span<const TokenId> choose(const Activations<2>& logits,
                                                std::span<const SampleRow> draws);
  /// `end`: of the sequence behind the step.
  void clear_due_rows(SequenceId sequence, std::int64_t end);

  std::shared_ptr<const ModelWeights> weights_;
  EngineOptions options_;
  EngineRank rank_;
  ModelConfig rank_config_;                    ///< of this rank's blocks and heads
  std::unique_ptr<RankWeights> rank_weights_;  ///< null of one rank
  MemoryPlan plan_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceWeights> device_weights_;  ///< null where the device reads the checkpoint's map
  std::unique_ptr<ExpertStore> expert_store_;      ///< null where all experts lie in one memory
  std::unique_ptr<StagedExperts> staged_experts_;  ///< of a device with memory, where experts change places
  KvCache cache_;
  std::unique_ptr<IdentifiedDisk> disk_;
  SequenceTable sequences_;
  Arena arena_;
  Forward forward_;
  Activations<2> wanted_streams_;  ///< [max_logit_rows, n d]
  Activations<2> all_streams_;     ///< [max_batch_tokens, padded, n d] where ranks share out rows
  Activations<2> logits_;
  Arena host_arena_;              ///< memory that both can reach, on a device whose memory the host cannot
  float* host_logits_ = nullptr;  ///< [max_logit_rows, V] there
  float* host_draft_logits_ = nullptr;
  std::span<TokenId> chosen_;         ///< [max_logit_rows]
  std::vector<TokenId> host_chosen_;  ///< the same
  std::vector<TokenId> host_drafted_;

  // Of steps under way.
  struct QueuedPart {
    SequenceId sequence{};
    std::int64_t begin = 0, end = 0;  ///< positions
    std::int64_t first_choice = 0, num_choices = 0;
    std::optional<std::int64_t> source;  ///< choice of the step before that is its only token
    std::vector<std::int64_t>
        drafts;  ///< its last tokens: places among the choices that the step does not use
  };
  struct QueuedStep {
    std::vector<QueuedPart> parts;
    std::int64_t num_choices = 0;
    std::size_t place = 0;  ///< of its choices, and of its mark
  };
  /// Takes the drafts of a step that has ended: its sequences learn their names.
  void take_drafts(const QueuedStep& step);
  /// Makes the step the one in progress again, as far as its sequences are open.
  void lay_out(const QueuedStep& step);

  ExpertUse expert_use_;
  std::int64_t steps_since_placement_ = 0;
  std::deque<QueuedStep> under_way_;
  std::size_t num_queued_ = 0;  ///< since the start
  Buffer queued_choices_;       ///< [kMaxQueued, max_logit_rows] tokens, which device and host reach

  std::unique_ptr<DraftHead> draft_head_;  ///< null without drafts
  Activations<2> draft_logits_;            ///< [max_logit_rows, V] with it
  std::unique_ptr<StateTransfers> transfers_;

  // Of the step in progress.
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<std::int64_t> wanted_rows_;
};

/// The largest `num_drafts` of the inputs.
[[nodiscard]] std::int64_t most_drafts(std::span<const StepInput> inputs);

/// The sentence about a step's logits; `bad_block` as `first_bad_block` has it.
[[nodiscard]] Failure not_numbers(const ModelConfig& config, std::optional<std::int64_t> bad_block);

/// Whether no value is infinite or NaN. `values`: dense, in host memory.
[[nodiscard]] bool all_finite(const ConstActivations<2>& values);

/// The streams of all rows, a row of n d values each.
template <class Float>
[[nodiscard]] ActivationView<Float, 2> flat(const ActivationView<Float, 3>& streams) {
  return streams.template reshaped<2>({streams.extent(0), streams.extent(1) * streams.extent(2)});
}

}  // namespace baleen
