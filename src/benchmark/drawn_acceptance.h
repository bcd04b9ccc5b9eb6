/// Drafts that are right as often as wanted, whatever the weights: for benchmarks, whose made-up weights
/// draft nothing that they would say.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/step_engine.h"
#include "scheduler/scheduler_stats.h"
#include "simulator/serving/acceptance.h"

namespace baleen {

/// How many of the first `drafts` are what was chosen for their rows.
[[nodiscard]] std::int64_t num_accepted(std::span<const TokenId> drafts, std::span<const TokenId> chosen);

/// `drafts accepted, by position: 57.9% 44.7% 31.6%`, of all that were checked there; positions without any
/// are left out.
[[nodiscard]] std::string acceptance_text(std::span<const DraftsAtDepth> drafts);
/// An object for each position.
[[nodiscard]] nlohmann::ordered_json acceptance_json(std::span<const DraftsAtDepth> drafts);

/// Passes everything on to an engine that chooses tokens where its logits are. Of what a step chose behind
/// drafts it changes as many tokens to the drafts as `acceptance` draws, and the next one to another: whoever
/// compares them accepts so many. What the engine computes does not change.
class AcceptingEngine final : public StepEngine {
 public:
  /// `engine` outlives this; its limits say `chooses`.
  AcceptingEngine(StepEngine& engine, Acceptance acceptance);

  void keep_tail(SequenceId sequence, std::int64_t end) override { engine_.keep_tail(sequence, end); }
  [[nodiscard]] PrefixLookup lookup(SequenceId sequence) const override { return engine_.lookup(sequence); }
  [[nodiscard]] std::int64_t length(SequenceId sequence) const override { return engine_.length(sequence); }
  [[nodiscard]] bool reserve(SequenceId sequence, std::int64_t num_tokens) override {
    return engine_.reserve(sequence, num_tokens);
  }
  void share(SequenceId sequence) override { engine_.share(sequence); }
  void close(SequenceId sequence, bool keep) override { engine_.close(sequence, keep); }
  [[nodiscard]] CacheUse cache_use() const override { return engine_.cache_use(); }
  [[nodiscard]] EngineLimits limits() const override { return engine_.limits(); }
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override {
    return engine_.open(prompt);
  }
  void foresee(SequenceId sequence, std::span<const TokenId> tokens) override {
    engine_.foresee(sequence, tokens);
  }
  [[nodiscard]] std::optional<SequenceId> open_prompt(std::span<const TokenId> tokens,
                                                      std::int64_t prompt_tokens) override {
    return engine_.open_prompt(tokens, prompt_tokens);
  }
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs) override;
  [[nodiscard]] std::optional<Failure> queue(std::span<const StepInput> inputs) override;
  [[nodiscard]] Result<StepOutput> collect() override;
  void truncate(SequenceId sequence, std::int64_t length) override { engine_.truncate(sequence, length); }
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth) override {
    return engine_.draft(inputs, depth);
  }
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t most_nodes) const override {
    return engine_.tree(most_nodes);
  }

 private:
  /// What is known of an input when its step begins.
  struct Part {
    SequenceId sequence{};
    std::int64_t start = 0;
    std::size_t num_choices = 0;
    std::size_t num_drafts = 0;
    std::vector<TokenId> drafts;  ///< those that were fed; empty where the engine chains them
  };

  [[nodiscard]] std::vector<Part> parts_of(std::span<const StepInput> inputs) const;
  [[nodiscard]] StepOutput accepted(const StepOutput& output, std::span<const Part> parts);

  StepEngine& engine_;
  Acceptance acceptance_;
  std::deque<std::vector<Part>> under_way_;
  std::vector<TokenId> chosen_;  ///< what the latest output chose
};

}  // namespace baleen
