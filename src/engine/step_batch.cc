#include "engine/step_batch.h"

#include "base/check.h"
#include "engine/queued_steps.h"
#include "engine/step_inputs.h"

namespace baleen {

void StepBatch::clear() {
  tokens_.clear();
  slices_.clear();
  wanted_rows_.clear();
}

void StepBatch::lay_out(std::span<const StepInput> inputs) {
  clear();
  std::vector<std::int64_t> for_the_host;
  for (const StepInput& input : inputs) {
    const std::int64_t first_row = std::ssize(tokens_), count = num_rows_of(input);
    tokens_.insert(tokens_.end(), input.tokens.begin(), input.tokens.end());
    tokens_.resize(static_cast<std::size_t>(first_row + count), kNoToken);
    slices_.push_back(sequences_.slice(input.sequence, first_row, count));
    const std::int64_t first_wanted = count - num_wanted_of(input);
    BALEEN_CHECK(input.draws.empty() || std::ssize(input.draws) == count - first_wanted);
    std::vector<std::int64_t>& rows = input.draws.empty() ? for_the_host : wanted_rows_;
    for (std::int64_t i = first_wanted; i < count; ++i) rows.push_back(first_row + i);
  }
  wanted_rows_.insert(wanted_rows_.end(), for_the_host.begin(), for_the_host.end());
}

void StepBatch::lay_out(const QueuedStep& step) {
  clear();
  for (const QueuedPart& part : step.parts) {
    if (!sequences_.contains(part.sequence)) continue;
    const std::int64_t first_row = std::ssize(tokens_), count = part.end - part.begin;
    const std::span<const TokenId> all = sequences_.tokens(part.sequence);
    const auto tokens = all.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(count));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    slices_.push_back(sequences_.slice(part.sequence, first_row, count));
    slices_.back().start = part.begin;
    slices_.back().tokens_before = all.first(static_cast<std::size_t>(part.begin));
    for (std::int64_t i = count - part.num_choices; i < count; ++i) wanted_rows_.push_back(first_row + i);
  }
}

}  // namespace baleen
