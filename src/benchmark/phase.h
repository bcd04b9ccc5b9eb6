/// What `baleen bench` measures of an engine: phases of equal steps over sequences.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/ceilings.h"
#include "benchmark/drawn_acceptance.h"
#include "rank_engine/rank_engine.h"

namespace baleen {

/// One measured phase: wall time and what the device noted.
struct Phase {
  std::string name;
  std::int64_t tokens = 0;
  std::int64_t steps = 0;
  std::int64_t drafted = 0;  ///< tokens that the steps had as drafts
  std::vector<DraftsAtDepth> drafts_by_depth;
  double seconds = 0;         ///< total
  double median_seconds = 0;  ///< what one step takes
  std::map<std::string_view, OpRecord> records;
  OpRecord total;
  std::optional<ExpertFetchCounts> experts;                 ///< where experts lie in several memories
  std::optional<HostComputeStats> computed = std::nullopt;  ///< and the host computes some

  [[nodiscard]] double seconds_per_token() const { return seconds / static_cast<double>(tokens); }
};

/// Pseudo-random ids, so that tokens have different experts.
[[nodiscard]] std::vector<TokenId> some_tokens(std::int64_t count, std::int64_t vocab_size);

/// Feeds every sequence as many tokens as `tokens` has, step_tokens of them a step over all; as a server
/// would, where the engine can, each step begins before the one before has ended. `before_last`: the logits
/// that steps before the last want, which wants the last token's; with none a step's own time is what the
/// host takes for it, and the last one waits for all.
[[nodiscard]] Phase measure(ModelEngine& engine, std::span<const SequenceId> sequences,
                            const std::string& name, std::span<const TokenId> tokens,
                            std::int64_t step_tokens, WantedLogits before_last = WantedLogits::kLast);

/// Decodes every sequence in `num_steps` steps of a token and `num_drafts` drafts: the draft head drafts, the
/// step checks, what `accepting` draws is kept and the rest taken back. `tokens` of the phase are those that
/// replies would have got. `first`: the token that the sequences begin with.
[[nodiscard]] Phase measure_drafting(ModelEngine& engine, AcceptingEngine& accepting,
                                     std::span<const SequenceId> sequences, const std::string& name,
                                     TokenId first, std::int64_t num_steps, std::int64_t num_drafts);

void print_phase(const Phase& phase, const Ceilings& ceilings);
[[nodiscard]] nlohmann::ordered_json to_json(const Phase& phase, const Ceilings& ceilings);

}  // namespace baleen
