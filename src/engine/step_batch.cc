#include "engine/step_batch.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "engine/queued_steps.h"
#include "engine/step_inputs.h"

namespace baleen {

void StepBatch::clear() {
  tokens_.clear();
  slices_.clear();
  wanted_rows_.clear();
  last_inputs_.clear();
  decoder_.reset();
  decoder_tokens_.clear();
  decoder_slices_.clear();
  decoder_pairs_.clear();
}

void StepBatch::set_token(std::int64_t row, TokenId token) {
  tokens_[static_cast<std::size_t>(row)] = token;
  for (const RowPair& pair : decoder_pairs_) {
    if (pair.from == row) decoder_tokens_[static_cast<std::size_t>(pair.to)] = token;
  }
}

bool StepBatch::is_bounded(const SequenceSlice& slice, std::int64_t begin) const {
  return begin > 0 && slice.window_at(slice.start, sequences_.window_tokens()).begin < begin;
}

DecoderUse StepBatch::decoder_use(std::span<const StepInput> inputs) const {
  DecoderUse use;
  if (!decoder_begin_) return use;
  for (const StepInput& input : inputs) {
    const SequenceSlice slice = sequences_.slice(input.sequence, 0, num_rows_of(input));
    const std::int64_t begin = sequences_.decoder_begin(input.sequence);
    use |= {.is_bounded = is_bounded(slice, begin), .has_rows = begin < slice.start + slice.num_tokens};
  }
  return use;
}

void StepBatch::divide(std::span<const std::int64_t> decoder_begins) {
  if (!use_.is_bounded) {
    last_inputs_.resize(slices_.size());
    std::iota(last_inputs_.begin(), last_inputs_.end(), std::size_t{0});
    return;
  }
  std::vector<std::int64_t> last_row(tokens_.size(), -1);
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    SequenceSlice slice = slices_[i];
    const std::int64_t skipped = std::max<std::int64_t>(decoder_begins[i] - slice.start, 0);
    if (skipped >= slice.num_tokens) continue;
    last_inputs_.push_back(i);
    const std::int64_t first = slice.first_row + skipped;
    slice.first_row = std::ssize(decoder_tokens_);
    slice.num_tokens -= skipped;
    slice.start += skipped;
    slice.window_begin = std::max(slice.window_begin, decoder_begins[i]);
    slice.tokens_before = {};  // rows of tables of n-grams are read before
    decoder_slices_.push_back(slice);
    for (std::int64_t row = first; row < first + slice.num_tokens; ++row) {
      last_row[static_cast<std::size_t>(row)] = std::ssize(decoder_tokens_);
      decoder_pairs_.push_back(
          {static_cast<std::int32_t>(row), static_cast<std::int32_t>(decoder_tokens_.size())});
      decoder_tokens_.push_back(tokens_[static_cast<std::size_t>(row)]);
    }
  }
  for (std::int64_t& row : wanted_rows_) {
    row = last_row[static_cast<std::size_t>(row)];
    BALEEN_CHECK_LE(0, row);
  }
  decoder_ = DecoderRows{.begin = *decoder_begin_,
                         .batch = {.tokens = decoder_tokens_, .slices = decoder_slices_},
                         .rows = decoder_pairs_,
                         .any = use_.has_rows};
}

void StepBatch::lay_out(std::span<const StepInput> inputs, DecoderUse use) {
  clear();
  use_ = use;
  std::vector<std::int64_t> for_the_host, decoder_begins;
  for (const StepInput& input : inputs) {
    const std::int64_t first_row = std::ssize(tokens_), count = num_rows_of(input);
    tokens_.insert(tokens_.end(), input.tokens.begin(), input.tokens.end());
    tokens_.resize(static_cast<std::size_t>(first_row + count), kNoToken);
    slices_.push_back(sequences_.slice(input.sequence, first_row, count));
    decoder_begins.push_back(sequences_.decoder_begin(input.sequence));
    const std::int64_t first_wanted = count - num_wanted_of(input);
    BALEEN_CHECK(input.draws.empty() || std::ssize(input.draws) == count - first_wanted);
    std::vector<std::int64_t>& rows = input.draws.empty() ? for_the_host : wanted_rows_;
    for (std::int64_t i = first_wanted; i < count; ++i) rows.push_back(first_row + i);
  }
  wanted_rows_.insert(wanted_rows_.end(), for_the_host.begin(), for_the_host.end());
  divide(decoder_begins);
}

void StepBatch::lay_out(const QueuedStep& step) {
  clear();
  use_ = step.decoder_use;
  std::vector<std::int64_t> decoder_begins;
  for (const QueuedPart& part : step.parts) {
    if (!sequences_.contains(part.sequence)) continue;
    const std::int64_t first_row = std::ssize(tokens_), count = part.end - part.begin;
    const std::span<const TokenId> all = sequences_.tokens(part.sequence);
    const auto tokens = all.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(count));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    slices_.push_back(sequences_.slice(part.sequence, first_row, count));
    decoder_begins.push_back(sequences_.decoder_begin(part.sequence));
    slices_.back().start = part.begin;
    slices_.back().tokens_before = all.first(static_cast<std::size_t>(part.begin));
    for (std::int64_t i = count - part.num_choices; i < count; ++i) wanted_rows_.push_back(first_row + i);
  }
  divide(decoder_begins);
}

}  // namespace baleen
