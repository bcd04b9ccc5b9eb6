/// A StepEngine over `fake_model.h` with bounded pages, window pages and slots, which complains of every
/// misuse.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/step_engine.h"
#include "tests/scheduler/fake_model.h"
#include "tests/scheduler/fake_paging.h"

namespace baleen {

struct FakeEngineOptions {
  FakePools pools;
  std::int64_t max_batch_tokens = 512;
  std::int64_t max_logit_rows = 64;
  bool chooses = false;           ///< takes draws, as an engine on a GPU does
  bool queues = false;            ///< and runs steps that the loop does not wait for; implies `chooses`
  bool runs_ahead = false;        ///< and begins steps before earlier ones are collected; implies `queues`
  double draft_quality = 0.7;     ///< chance that a draft sees the true logits
  bool tells_confidence = false;  ///< of each draft: kSure where it sees the true logits, else -kSure
  std::unique_ptr<FakePaging> (*paging)(const FakePools&) = make_toy_paging;
};

/// One input of a step, as tests look at it.
struct FakeStepPart {
  SequenceId sequence{};
  std::int64_t start = 0, num_tokens = 0;
  WantedLogits wanted = WantedLogits::kNone;
};

class FakeEngine : public StepEngine {
 public:
  static constexpr float kSure = 3;

  explicit FakeEngine(const FakeEngineOptions& options);
  ~FakeEngine() override;

  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override;
  [[nodiscard]] std::optional<SequenceId> open_prompt(std::span<const TokenId> tokens,
                                                      std::int64_t prompt_tokens) override {
    opened_prompts.push_back(prompt_tokens);
    return open(tokens);
  }
  /// What is said here is what the sequence is fed next.
  void foresee(SequenceId sequence, std::span<const TokenId> tokens) override;
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
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t) const override { return {}; }

  /// Called with every step before it runs; a sentence makes it fail and spoils its sequences.
  std::function<std::string(const std::vector<FakeStepPart>&)> on_step;
  bool drafts_fail = false;
  std::int64_t num_opened = 0;               ///< sequences, since the start
  std::int64_t num_chosen = 0;               ///< tokens
  std::vector<std::int64_t> opened_prompts;  ///< `prompt_tokens`, in the order of calls
  std::int64_t num_foreseen = 0;             ///< parts of steps whose first token was foreseen
  std::int64_t num_ahead = 0;                ///< steps that were begun while another was under way
  std::int64_t num_queued = 0;               ///< steps that the loop did not wait for
  /// Called at the beginning of `collect`: the time that a device takes, if a test wants one.
  std::function<void()> on_collect;

 private:
  struct Chain {
    std::vector<TokenId> drafts;
    std::vector<float> confidence;
  };
  struct QueuedPart {
    SequenceId sequence{};
    std::int64_t end = 0;  ///< its length after the step
    std::size_t first_choice = 0, num_choices = 0;
    bool goes_on = false;  ///< with a token of the step before
    Chain chain;
  };
  struct QueuedStep {
    std::vector<QueuedPart> parts;
    std::vector<TokenId> chosen;
    std::string fault;
  };
  struct Sequence {
    std::vector<History> histories;  ///< after each of its tokens
    std::int64_t undoable_from = 0;  ///< where the last step began
    bool stepped = false, spoilt = false;
    std::vector<TokenId> drafts;
    std::vector<TokenId> foreseen;  ///< from its end on

    [[nodiscard]] History history() const { return histories.empty() ? kNoHistory : histories.back(); }
  };

  /// The token that a step under way chooses for a sequence.
  [[nodiscard]] TokenId choice_for(SequenceId sequence) const;
  /// The chain of drafts behind an input's tokens.
  [[nodiscard]] Chain chain(const StepInput& input);
  /// Logits of the draft model after `drafts`, the first of which is a sequence's newest token. How sure it
  /// is of them.
  float draft_logits(const Sequence& sequence, std::span<float> row) const;
  /// Feeds a step, and fills logits_ for its rows: those with draws first. How many there are.
  std::int64_t compute(std::span<const StepInput> inputs);
  /// What `draws` choose from the first rows of logits_.
  std::span<const TokenId> choose(std::span<const SampleRow> draws);

  [[nodiscard]] Sequence& find(SequenceId sequence);
  [[nodiscard]] std::vector<FakeStepPart> checked_parts(std::span<const StepInput> inputs);

  FakeEngineOptions options_;
  std::unique_ptr<FakePaging> paging_;
  std::map<SequenceId, Sequence> sequences_;
  std::vector<float> logits_;
  std::vector<TokenId> chosen_, drafted_;
  std::vector<float> confidence_;
  std::deque<QueuedStep> under_way_;
  bool must_collect_ = false;  ///< tokens of the last queued step have no names yet
};

}  // namespace baleen
