/// A StepEngine over the engine's own SequenceTable whose steps only take time, and whose replies are the
/// next tokens of a request's stream.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/sequence_table.h"
#include "model/decoder_half.h"
#include "simulator/serving/simulated_server.h"

namespace baleen {

class TimedEngine final : public StepEngine {
 public:
  /// All outlive the engine; `now` moves on with every step. `requests`: by number. A request's number is
  /// given to the engine as top_k of its draws.
  TimedEngine(const ServerSetup& setup, const Acceptance& acceptance,
              const std::vector<ServingRequest>& requests, double& now)
      : setup_(setup),
        acceptance_(acceptance),
        requests_(requests),
        now_(now),
        cache_(setup.geometry, setup.capacity),
        table_(cache_, setup.reserved_tails, setup.bounded_replay_tokens > 0) {}

  /// Called when a step has ended, before anyone hears of it.
  std::function<void()> on_step_end;

  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt) override {
    return table_.open(prompt);
  }
  [[nodiscard]] std::optional<SequenceId> open_prompt(std::span<const TokenId> tokens,
                                                      std::int64_t prompt_tokens) override {
    return table_.open(tokens, decoder_begin_of(prompt_tokens, setup_.bounded_replay_tokens));
  }
  [[nodiscard]] std::int64_t length(SequenceId id) const override { return table_.length(id); }
  [[nodiscard]] bool reserve(SequenceId id, std::int64_t count) override { return table_.reserve(id, count); }
  [[nodiscard]] Result<StepOutput> step(std::span<const StepInput> inputs) override;
  void truncate(SequenceId id, std::int64_t length) override { table_.truncate(id, length); }
  [[nodiscard]] Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth) override;
  void share(SequenceId id) override { table_.share(id); }
  void close(SequenceId id, bool keep) override { table_.close(id, keep); }
  [[nodiscard]] CacheUse cache_use() const override { return table_.cache_use(); }
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t) const override { return {}; }

 private:
  [[nodiscard]] TokenId token_at(const SampleRow& draw, std::int64_t position) const;

  const ServerSetup& setup_;
  const Acceptance& acceptance_;
  const std::vector<ServingRequest>& requests_;
  double& now_;
  KvCache cache_;
  SequenceTable table_;
  std::vector<TokenId> chosen_;
};

}  // namespace baleen
