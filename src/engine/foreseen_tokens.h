/// Tokens that sequences will be fed next, as far as they are known: rows of tables that are read by them are
/// fetched before their step (engram/engram_store.h).
///
///     a prompt   known from `open` on   its next chunk, as long as the present one, while that is computed
///     a reply    known when chosen      at once: while the step is planned and drafts are made
///     drafts     known link by link     at once
///
/// All of it is a guess: a step may have other tokens, which then cost what they would have cost.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/sequence_table.h"
#include "engine/step_engine.h"
#include "engram/engram_store.h"

namespace baleen {

/// Not thread-safe.
class ForeseenTokens {
 public:
  /// `store`: null where no layer reads tables, which makes all of this nothing. Both outlive this.
  /// `max_batch_tokens` of a step.
  ForeseenTokens(const SequenceTable& sequences, EngramStore* store, std::int64_t max_batch_tokens)
      : sequences_(sequences), store_(store), max_batch_tokens_(max_batch_tokens) {}

  /// The sequence was opened, and will be fed this prompt.
  void open(SequenceId sequence, std::span<const TokenId> prompt);
  /// As StepEngine::foresee.
  void foresee(SequenceId sequence, std::span<const TokenId> tokens);
  /// What is drafted with is what the next step checks, as StepEngine::draft.
  void foresee(std::span<const DraftInput> inputs, std::int64_t depth);
  /// A step of these inputs is about to begin; then, its operations were called.
  void before_step(std::span<const StepInput> inputs);
  void step_is_under_way();

 private:
  struct Tokens {
    std::int64_t begin = 0;  ///< position of the first
    std::vector<TokenId> ids;
  };

  /// Begins to read for the first of the sequence's tokens.
  void fetch(SequenceId sequence, std::span<const TokenId> ids);

  const SequenceTable& sequences_;
  EngramStore* store_;
  std::int64_t max_batch_tokens_;
  std::map<SequenceId, Tokens> foreseen_;
};

}  // namespace baleen
