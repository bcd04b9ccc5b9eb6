/// A step as one ragged batch: the tokens of its inputs end to end, and which rows want logits.
///
///     inputs        a: 3 tokens, none wanted   b: 1 token, 2 drafts, with draws   c: 1 token, wanted
///     rows          a0 a1 a2                   b3 ? ?                             c6
///     wanted rows                              3  4 5                             6
///
/// With bounded replay this is the place that decides which rows go through the decoder half of the model:
/// those from where it begins in their sequence, and what they see of the window begins there too. In a step
/// without any of another kind, as in one that only decodes, all rows go through all layers in one pass. All
/// ranks run the passes that the rows of any of them want (`DecoderUse`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "engine/sequence_table.h"
#include "engine/step_engine.h"
#include "forward/forward.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct QueuedStep;

/// What rows of a step ask of the decoder half, with bounded replay; nothing without.
struct DecoderUse {
  bool is_bounded = false;  ///< some end before it, or see less of a window there: it is a pass of its own
  bool has_rows = false;    ///< some go through it

  static auto fields(auto& self) { return std::tie(self.is_bounded, self.has_rows); }
  DecoderUse& operator|=(const DecoderUse& other) {
    is_bounded |= other.is_bounded;
    has_rows |= other.has_rows;
    return *this;
  }
  bool operator==(const DecoderUse&) const = default;
};

class StepBatch {
 public:
  /// `decoder_begin`: the first layer of the decoder half, with bounded replay. `sequences` outlive this.
  explicit StepBatch(const SequenceTable& sequences, std::optional<std::int64_t> decoder_begin)
      : sequences_(sequences), decoder_begin_(decoder_begin) {}

  /// Of a step of these inputs.
  [[nodiscard]] DecoderUse decoder_use(std::span<const StepInput> inputs) const;
  /// Drafts behind an input's tokens are kNoToken, for `set_token`. `use`: of the step on all ranks.
  void lay_out(std::span<const StepInput> inputs, DecoderUse use);
  /// A queued step once more, as far as its sequences are open: their tokens have become known.
  void lay_out(const QueuedStep& step);
  void set_token(std::int64_t row, TokenId token);

  /// Valid until the next layout, or until one of the sequences changes.
  [[nodiscard]] RaggedBatch rows() const { return {.tokens = tokens_, .slices = slices_}; }
  [[nodiscard]] std::int64_t num_rows() const { return std::ssize(tokens_); }
  /// Of each input.
  [[nodiscard]] std::span<const SequenceSlice> slices() const { return slices_; }
  /// Nothing: all rows go through all layers, and see the same window in each.
  [[nodiscard]] const std::optional<DecoderRows>& decoder_rows() const { return decoder_; }
  /// The rows that come out of the last layer.
  [[nodiscard]] RaggedBatch last_rows() const { return decoder_ ? decoder_->batch : rows(); }
  /// Some do, on one rank or another.
  [[nodiscard]] bool reaches_last_layer() const { return !decoder_ || decoder_->any; }
  /// Of each of their slices the input.
  [[nodiscard]] std::span<const std::size_t> last_inputs() const { return last_inputs_; }
  /// Among `last_rows`. Those of inputs with draws come first.
  [[nodiscard]] std::span<const std::int64_t> wanted_rows() const { return wanted_rows_; }
  /// With which the step was laid out.
  [[nodiscard]] DecoderUse decoder_use() const { return use_; }

 private:
  void clear();
  /// The decoder half begins at `begin` of the sequence, and the slice sees or is positions before it.
  [[nodiscard]] bool is_bounded(const SequenceSlice& slice, std::int64_t begin) const;
  /// Behind all else, `decoder_begins` of each input.
  void divide(std::span<const std::int64_t> decoder_begins);

  const SequenceTable& sequences_;
  std::optional<std::int64_t> decoder_begin_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<std::int64_t> wanted_rows_;
  std::vector<std::size_t> last_inputs_;
  // Of the decoder half, where it has rows of its own.
  DecoderUse use_;
  std::optional<DecoderRows> decoder_;
  std::vector<TokenId> decoder_tokens_;
  std::vector<SequenceSlice> decoder_slices_;
  std::vector<RowPair> decoder_pairs_;
};

}  // namespace baleen
