/// An engine over several ranks: what a scheduler sees of one rank, done by all of them.
///
/// Each data-parallel group owns whole sequences and their cache; its ranks keep the same table of them,
/// because they get the same calls. The driver, which is this class, knows of a sequence which group has it
/// and how long it is:
///
///     step of sequences  a b c d     groups 0: a c    1: b d     2: none, but it takes part
///     ─► prepare  checks and pages, all groups; a failure ends the step with nothing computed
///     ─► compute  the pass, all ranks at the same time
///     ─► commit   once no rank has a failure
///     ◄─ logits   of the first rank of each group's last stage, put in the order of the batch
///
/// With prefill groups a sequence is open in two groups until its prompt is computed (rank_transfer.cc).
///
/// Before a step, experts may change places (rank_balance.cc): all ranks stage the same maps, and all put
/// them in force once none has a failure.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model_engine.h"
#include "moe/placement/expert_balancer.h"
#include "rank_engine/rank_team.h"

namespace baleen {

/// Not thread-safe: one caller.
class RankEngine final : public ModelEngine {
 public:
  /// `options` resolved, with a plan of more than one rank, which is the team's.
  RankEngine(std::unique_ptr<RankTeam> team, EngineOptions options);

  [[nodiscard]] const ModelConfig& config() const override { return team_->first().config(); }
  [[nodiscard]] const EngineOptions& options() const override { return options_; }
  [[nodiscard]] const MemoryPlan& plan() const override { return team_->first().plan(); }
  [[nodiscard]] std::string memory_text() const override;
  [[nodiscard]] Device& device() override { return team_->first().device(); }
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() override;
  /// Sums over the ranks that have experts outside their GPU's memory, as if of one block; slots are the
  /// first one's.
  [[nodiscard]] std::optional<ExpertPlaceStats> expert_places() const override;
  [[nodiscard]] const ExpertBalance* expert_balance() const override {
    return balancer_ ? &balancer_->state() : nullptr;
  }
  [[nodiscard]] std::span<const ExpertMap> expert_maps() const override {
    return balancer_ ? balancer_->maps() : maps_;
  }
  [[nodiscard]] std::optional<DiskTierStats> disk_stats() const override { return std::nullopt; }
  void fabricate_history(SequenceId sequence, std::int64_t num_positions) override;

  [[nodiscard]] EngineLimits limits() const override;
  /// In the group with the longest cached prefix among those that have few more sequences than the least.
  /// With prefill groups: in one of those, and in one of the others, which takes it over before the first
  /// step behind the one that ends the prompt: the one that wants logits at its last token or beyond.
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override {
    return open(prompt, 0);
  }
  [[nodiscard]] std::optional<SequenceId> open_prompt(std::span<const TokenId> tokens,
                                                      std::int64_t prompt_tokens) override {
    return open(tokens, options_.decoder_begin(prompt_tokens));
  }
  /// In the group that computes the prompt.
  void keep_tail(SequenceId sequence, std::int64_t end) override;
  [[nodiscard]] PrefixLookup lookup(SequenceId sequence) const override;
  [[nodiscard]] std::int64_t length(SequenceId sequence) const override;
  [[nodiscard]] bool reserve(SequenceId sequence, std::int64_t num_tokens) override;
  /// Throws `LostRanks` when a rank fails or does not answer.
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs) override;
  /// Where the ranks' devices choose: all ranks begin the step, and each chooses. They have the same logits,
  /// so they choose the same.
  [[nodiscard]] std::optional<Failure> queue(std::span<const StepInput> inputs) override;
  [[nodiscard]] Result<StepOutput> collect() override;
  void truncate(SequenceId sequence, std::int64_t length) override;
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth) override;
  void share(SequenceId sequence) override;
  void close(SequenceId sequence, bool keep) override;
  /// Sums over the groups.
  [[nodiscard]] CacheUse cache_use() const override;
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t most_nodes) const override;

  [[nodiscard]] std::optional<TransferStats> transfer_stats() const override;

  /// The group of an open sequence: the one that computes its next step.
  [[nodiscard]] std::int64_t group_of(SequenceId sequence) const { return sequences_.at(sequence).group; }

 private:
  /// The decode group that will take a sequence over, where it is open too.
  struct Successor {
    std::int64_t group = 0;
    SequenceId own{};
    std::int64_t known_pages = 0;  ///< pages that its prefix cache had
    std::int64_t num_pages = 0;    ///< pages, those that have arrived included
  };
  struct Sequence {
    std::int64_t group = 0;
    SequenceId own{};  ///< as the group's engines number it
    std::int64_t opened_at = 0, length = 0;
    std::int64_t prompt_tokens = 0;  ///< as far as they were known at the beginning
    std::int64_t decoder_begin = 0;
    std::optional<Successor> successor = std::nullopt;
    bool prompt_ended = false;
    bool was_sent = false;  ///< what there was to send, since its last step
    bool was_shared = false;
  };
  /// Logits of all groups, in the order of a batch.
  struct Merged {
    std::vector<float> values;
    void clear() { values.clear(); }
    [[nodiscard]] ConstActivations<2> rows(std::int64_t vocab_size) const {
      return {values.data(), {std::ssize(values) / vocab_size, vocab_size}};
    }
  };

  [[nodiscard]] std::int64_t num_groups() const { return options_.parallel.dp; }
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt, std::int64_t decoder_begin);
  /// The rank that replies for a group: the first one of its last stage.
  [[nodiscard]] const RankReply& reply_of(const std::vector<RankReply>& replies, std::int64_t group) const;
  /// Of groups [begin, end).
  [[nodiscard]] std::int64_t choose_group(std::span<const TokenId> prompt, std::int64_t begin,
                                          std::int64_t end) const;
  /// Opens a sequence in a group; its number and length there.
  [[nodiscard]] std::pair<SequenceId, std::int64_t> open_in(std::int64_t group,
                                                            std::span<const TokenId> prompt,
                                                            std::int64_t decoder_begin);
  void close_in(std::int64_t group, SequenceId own, bool keep);
  /// Calls one group.
  template <class Call>
  typename Call::Reply call_group(std::int64_t group, Call call) const;
  template <class Input>
  [[nodiscard]] std::vector<std::vector<Input>> by_group(std::span<const Input> inputs) const;
  // Between groups (rank_transfer.cc).
  /// Opens the sequence in a decode group too, and gets what only that one has of the prompt.
  void open_successor(Sequence& sequence, std::span<const TokenId> prompt);
  /// Sends what is complete of these sequences and was not sent yet, once between two steps of each. Those
  /// whose prompt has ended go over whole. Where a decode group has no room, nothing is sent this time.
  void send_states(std::span<const SequenceId> ids);
  template <class Input>
  void send_states_of(std::span<const Input> inputs);
  [[nodiscard]] bool expect(std::int64_t group, SequenceId own, std::int64_t end);
  /// What the receivers refuse, with the rank that does; empty where they accept.
  [[nodiscard]] std::vector<std::string> transfer(std::vector<SequenceTransfer> transfers);
  /// The successor has everything: it goes on.
  void hand_over(Sequence& sequence);
  /// The sequence stays where it is for good.
  void drop_successor(Sequence& sequence);
  void refused(const Sequence& sequence, const std::string& why);

  /// Finds what is wrong with a step and takes pages, all ranks or none; what it asks of the decoder half.
  [[nodiscard]] Result<DecoderUse> prepare(const calls::ByGroup<StepInput>& groups);
  /// Before a step: lets experts change places, if that is due, on all ranks or on none.
  void balance_experts();
  /// Stages the maps of some blocks and puts them in force; a rank's failure leaves these as they were.
  [[nodiscard]] std::optional<Failure> change_maps(std::span<const BlockExperts> experts);
  [[nodiscard]] Failure failure_of_step(const std::vector<RankReply>& replies);
  /// A part of a step as its results are put together.
  struct Part {
    std::int64_t group = 0;
    std::int64_t num_logits = 0, num_draft_logits = 0, num_chosen = 0, num_drafted = 0, num_confidences = 0;
  };
  [[nodiscard]] std::vector<Part> parts_of(std::span<const StepInput> inputs) const;
  /// The results of all groups in the order of the batch. What was chosen stays until the next call of this.
  [[nodiscard]] StepOutput merge(std::span<const Part> parts, std::span<const calls::StepRows> groups);
  /// What each group answered to a `Call`.
  template <class Call>
  [[nodiscard]] std::vector<calls::StepRows> rows_of_groups(const std::vector<RankReply>& replies) const;

  std::unique_ptr<RankTeam> team_;
  EngineOptions options_;
  std::map<SequenceId, Sequence> sequences_;
  std::vector<std::int64_t> num_open_;  ///< one for each group
  std::int64_t next_id_ = 0;
  std::vector<ExpertMap> maps_;  ///< where layers have maps that stay
  std::optional<ExpertBalancer> balancer_;
  Merged logits_, draft_logits_;
  std::vector<TokenId> chosen_, drafted_;
  std::vector<float> confidence_;
  TransferStats transfer_stats_;
  std::deque<std::vector<Part>> under_way_;  ///< parts of queued steps
};

/// An engine for `options.parallel`: of one rank `Engine`, of several a `RankEngine` over threads of this
/// process, or over the processes that mpirun started it among: in all but the first of them this executes
/// what the first one calls, and throws `FollowedToTheEnd` at the end. Refuses what cannot be before weights
/// are loaded; throws `Error`.
[[nodiscard]] std::unique_ptr<ModelEngine> open_engine(const std::filesystem::path& folder,
                                                       const EngineOptions& options);
/// The same of a folder that is open.
[[nodiscard]] std::unique_ptr<ModelEngine> open_engine(ModelFolder folder, const EngineOptions& options);
/// The same of weights that are at hand.
[[nodiscard]] std::unique_ptr<ModelEngine> open_engine(std::shared_ptr<const ModelWeights> weights,
                                                       const EngineOptions& options);

}  // namespace baleen
