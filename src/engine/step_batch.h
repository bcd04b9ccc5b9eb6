/// A step as one ragged batch: the tokens of its inputs end to end, and which rows want logits.
///
///     inputs        a: 3 tokens, none wanted   b: 1 token, 2 drafts, with draws   c: 1 token, wanted
///     rows          a0 a1 a2                   b3 ? ?                             c6
///     wanted rows                              3  4 5                             6
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sequence_table.h"
#include "engine/step_engine.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct QueuedStep;

class StepBatch {
 public:
  /// `sequences` outlive this.
  explicit StepBatch(const SequenceTable& sequences) : sequences_(sequences) {}

  /// Drafts behind an input's tokens are kNoToken, for `set_token`.
  void lay_out(std::span<const StepInput> inputs);
  /// A queued step once more, as far as its sequences are open: their tokens have become known.
  void lay_out(const QueuedStep& step);
  void set_token(std::int64_t row, TokenId token) { tokens_[static_cast<std::size_t>(row)] = token; }

  /// Valid until the next layout, or until one of the sequences changes.
  [[nodiscard]] RaggedBatch rows() const { return {.tokens = tokens_, .slices = slices_}; }
  [[nodiscard]] std::int64_t num_rows() const { return std::ssize(tokens_); }
  /// Of each input.
  [[nodiscard]] std::span<const SequenceSlice> slices() const { return slices_; }
  /// Those of inputs with draws come first.
  [[nodiscard]] std::span<const std::int64_t> wanted_rows() const { return wanted_rows_; }

 private:
  void clear();

  const SequenceTable& sequences_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<std::int64_t> wanted_rows_;
};

}  // namespace baleen
