/// What a scheduler asks of an engine: sequences that share prefixes, steps over many of them, drafts. The
/// engine of one rank implements it; tests and the simulator bring their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "ops/sample/sample.h"
#include "prefix_cache/radix_tree.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

enum class SequenceId : std::int64_t {};

enum class WantedLogits : std::uint8_t { kNone, kLast, kAll };

/// One sequence's part of a step: its next tokens. An open sequence, at most once in a step.
struct StepInput {
  SequenceId sequence{};
  std::span<const TokenId> tokens;  ///< at least one
  WantedLogits wanted = WantedLogits::kLast;
  /// How the token after each wanted row is chosen, by engines that can (`EngineLimits::chooses`); empty: the
  /// input's logits come to the host instead.
  std::span<const SampleRow> draws = {};
  bool wants_draft_logits = true;  ///< counts with kAll, where engines have `drafts`
  /// In `queue` alone: so many drafts follow the last token, and their rows are wanted too. The engine chains
  /// them itself, each chosen by the draw of the row that checks it; room as for `draft`. `wanted` is kLast.
  std::int64_t num_drafts = 0;
};

struct StepOutput {
  /// [wanted rows of the inputs without draws, in batch order, V]; valid until the next step.
  ConstActivations<2> logits;
  /// One token for each wanted row of the inputs with draws, in batch order; valid until the next step.
  std::span<const TokenId> chosen = {};
  /// The drafts of the inputs, in batch order; kNoToken where the draft head's logits gave none. Valid until
  /// the next step.
  std::span<const TokenId> drafted = {};
  /// Of each of `drafted`, as DraftOutput::confidence.
  std::span<const float> confidence = {};
  /// Engines with `drafts`, where the head gives any: row r predicts the token after next of a position whose
  /// successor is known: positions start - 1 .. end - 2 of every input that wants them (from `start` in a
  /// sequence's first step, also behind a prefix that was found). Valid until the next step or draft.
  ConstActivations<2> draft_logits;
};

/// One more link of a chain of drafts.
struct DraftInput {
  SequenceId sequence{};
  /// Depth 0: the token chosen from the sequence's last logits. Depth i: the draft of depth i - 1.
  TokenId token = 0;
  std::optional<SampleRow> draw = std::nullopt;  ///< how the next draft is to be chosen, as StepInput::draws
};

/// One row an input, as of a step: logits, or what was chosen.
struct DraftOutput {
  ConstActivations<2> logits;
  std::span<const TokenId> chosen = {};
  /// A logit of each: its sigmoid is the chance that the draft is accepted if those before it are. Empty
  /// where the head tells none (`EngineLimits::tells_confidence`).
  std::span<const float> confidence = {};
};

/// Use of the pools, in pages of 256 positions. free + cached + in_use = total.
struct PoolUse {
  std::int64_t total = 0, free = 0;
  std::int64_t cached = 0;  ///< owned by the tree
  std::int64_t in_use = 0;  ///< owned by sequences
};

struct CacheUse {
  PoolUse pages, window_pages, state_slots;
};

/// What an engine can do at most.
struct EngineLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_batch_tokens = 0;
  std::int64_t max_logit_rows = 0;
  std::int64_t max_sequences = 0;
  std::int64_t max_draft_tokens = 0;  ///< 0: no drafting
  /// Tokens that a sequence has room for at least (`reserve`) before anything is drafted for it.
  std::int64_t least_draft_room = 0;
  bool tells_confidence = false;    ///< the draft head does, of each draft
  std::int64_t context_tokens = 0;  ///< positions of one sequence that has the cache to itself
  bool chooses = false;             ///< takes draws: logits need not leave the device
  bool queues = false;              ///< chooses, and takes `queue` and `collect`
  /// Queues, and begins steps before the host has seen earlier choices, as long as neither step has drafts:
  /// how many of them are right decides at which position the next step begins.
  bool runs_ahead = false;
};

/// Open sequences and their room in the cache: what decides who runs needs to know no more of an engine.
/// Not thread-safe: one caller.
class SequenceKeeper {
 public:
  virtual ~SequenceKeeper() = default;

  /// Tokens seen, or found in the cache.
  [[nodiscard]] virtual std::int64_t length(SequenceId sequence) const = 0;
  /// Makes room for that many more tokens, evicting cached prefixes if need be. False, and nothing taken or
  /// evicted, when there is none.
  [[nodiscard]] virtual bool reserve(SequenceId sequence, std::int64_t num_tokens) = 0;
  /// Hands the sequence's whole pages to the prefix cache (for others, or for itself when it comes back); it
  /// goes on with the cache's. Prefixes are found to where they were shared or kept, and to few places
  /// between: worth it at the end of a prompt, while between its chunks it costs others a window page each
  /// time.
  virtual void share(SequenceId sequence) = 0;
  /// Ends the sequence. `keep`: as `share` before; otherwise its pages are freed.
  virtual void close(SequenceId sequence, bool keep) = 0;

  [[nodiscard]] virtual CacheUse cache_use() const = 0;
};

/// Steps are run one by one (`step`), or begun ahead of their predecessor's results (`queue`, `collect`).
/// While steps are under way, sequences may be looked at, opened, reserved, shared and closed: only what was
/// collected is shared, and a sequence that is closed drops its part of the steps under way. `step`,
/// `truncate` and `draft` are not called meanwhile.
class StepEngine : public SequenceKeeper {
 public:
  static constexpr std::size_t kMaxQueued = 2;

  [[nodiscard]] virtual EngineLimits limits() const = 0;

  /// A new sequence that will be fed `prompt`. Where the prefix cache holds a beginning of it (at most all
  /// but the last token), the sequence starts with that: `length` tells where to go on. Empty when
  /// max_sequences are open. Pages on disk may come without the rows of the last window; the sequence then
  /// starts before their end, and logits are exact from the position behind them on (the prompt's last token
  /// is always behind). May evict cached prefixes, and reads from disk before it returns.
  [[nodiscard]] virtual std::optional<SequenceId> open(std::span<const TokenId> prompt) = 0;
  /// The same of `tokens` that begin with a prompt of `prompt_tokens`. With bounded replay
  /// (EngineOptions::bounded_replay_tokens) the last tokens of the prompt, and all behind it, go through the
  /// whole model, those before them through its encoder half alone: their logits are not to be had. What the
  /// cache holds is used up to there, so that the sequence comes to the same bits whatever was found.
  [[nodiscard]] virtual std::optional<SequenceId> open_prompt(std::span<const TokenId> tokens,
                                                              std::int64_t /*prompt_tokens*/) {
    return open(tokens);
  }
  /// The sequence's next tokens, from its end on, as far as they are known; `open` says so much of a prompt.
  /// A hint: an engine whose layers read tables by their tokens may begin to fetch rows. Instead of what was
  /// said of the sequence before; no result depends on it, and a step may have other tokens.
  virtual void foresee(SequenceId /*sequence*/, std::span<const TokenId> /*tokens*/) {}
  /// Other prompts are expected to begin with the first `end` tokens of the sequence and to go on otherwise,
  /// as behind the instructions of one system: they shall find these, in whole pages, as soon as the sequence
  /// has come past them. Costs a window page where there is no tail yet. Engines without a prefix cache do
  /// nothing.
  virtual void keep_tail(SequenceId /*sequence*/, std::int64_t /*end*/) {}
  /// What `open` found of the sequence's prompt, and why no more. Without a prefix cache nothing is cached.
  [[nodiscard]] virtual PrefixLookup lookup(SequenceId /*sequence*/) const { return {}; }
  /// Runs one step. A failure leaves every sequence as it was, except after non-finite logits (the message
  /// names the first layer, or the draft head), when the sequences of the step are spoilt: close them without
  /// keeping. Expected failures: an id outside the vocabulary, more tokens than a step or the context holds,
  /// no free pages (never after `reserve`).
  [[nodiscard]] virtual Result<StepOutput> step(std::span<const StepInput> inputs) = 0;
  /// Begins a step, and does not wait for it: behind at most kMaxQueued - 1 that are under way where
  /// `EngineLimits::runs_ahead` and no input of either has drafts, else with none under way. Every wanted row
  /// has its draw. A sequence that the step before chooses a token for goes on with it when its only token
  /// here is kNoToken; `collect` comes next then. Sequences are as long as after it. Fails as `step` for
  /// what is wrong with a token or the room, with nothing begun. Only where `EngineLimits::queues`.
  [[nodiscard]] virtual std::optional<Failure> queue(std::span<const StepInput> inputs);
  /// Waits for the oldest step under way: what it chose, for sequences that were closed meanwhile too. Fails
  /// as `step` does after non-finite logits of sequences that are open; later steps stay under way.
  [[nodiscard]] virtual Result<StepOutput> collect();
  /// Takes back the last tokens: at most max_draft_tokens, none from before the last step, and none that were
  /// shared. Also gives back the room beyond them.
  virtual void truncate(SequenceId sequence, std::int64_t length) = 0;
  /// Drafts with one token of each input, `depth` links after the last step. Logits [inputs, V] of
  /// the token after it, or that token where every input has a draw, valid until the next call of anything.
  /// Wants room as for a step of depth + 1 tokens, and `EngineLimits::least_draft_room`; cache rows it writes
  /// are overwritten by the next step.
  /// Depth goes from 0 up to max_draft_tokens - 1, without gaps for any sequence since its last step. Fails
  /// as `step` does, for what is wrong with a token or the room.
  [[nodiscard]] virtual Result<DraftOutput> draft(std::span<const DraftInput> inputs, std::int64_t depth) = 0;
  /// For a picture of the tree.
  [[nodiscard]] virtual std::vector<RadixNodeSummary> tree(std::size_t most_nodes) const = 0;
};

inline std::optional<Failure> StepEngine::queue(std::span<const StepInput> /*inputs*/) {
  return failure("this engine runs one step at a time");
}
inline Result<StepOutput> StepEngine::collect() { return failure("this engine runs one step at a time"); }

}  // namespace baleen
