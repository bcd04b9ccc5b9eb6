#include "simulator/serving/simulated_sequences.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {

SimulatedSequences::SimulatedSequences(const CacheGeometry& geometry, const CacheCapacity& capacity,
                                       std::int64_t reserved_tails, bool bounds_replay)
    : cache_(geometry, capacity, memory_), table_(cache_, reserved_tails, bounds_replay) {}

std::span<const TokenId> SimulatedSequences::tokens(const TokenStream& stream, std::int64_t begin,
                                                    std::int64_t end) const {
  const auto count = static_cast<std::size_t>(end - begin);
  tokens_.resize(std::max(tokens_.size(), count));
  const std::span<TokenId> of_stream = std::span(tokens_).first(count);
  fill_tokens(stream, begin, of_stream);
  return of_stream;
}

std::optional<SequenceId> SimulatedSequences::open(const TokenStream& stream, std::int64_t num_tokens,
                                                   std::int64_t decoder_begin) {
  const std::optional<SequenceId> in_table = table_.open(tokens(stream, 0, num_tokens), decoder_begin);
  if (!in_table) return std::nullopt;
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<SequenceId>(sequences_.size()));
    sequences_.emplace_back();
  }
  const SequenceId id = free_ids_.back();
  free_ids_.pop_back();
  const std::int64_t found = table_.length(*in_table);
  at(id) = {.in_table = *in_table,
            .stream = stream,
            .length = found,
            .committed = found,
            .reserved = table_.reserved(*in_table),
            .is_open = true};
  return id;
}

void SimulatedSequences::tell(Sequence& sequence) const {
  if (sequence.committed == sequence.length) return;
  table_.commit(sequence.in_table, tokens(sequence.stream, sequence.committed, sequence.length));
  sequence.committed = sequence.length;
}

bool SimulatedSequences::may_release(const Sequence& sequence) const {
  const CacheGeometry& geometry = cache_.geometry();
  // The two distances at which SequencePages::leave_behind lets pages go, borrowed ones and its own.
  const auto passes_page = [&](std::int64_t distance) {
    return (sequence.length - distance) / kPageTokens != (sequence.committed - distance) / kPageTokens;
  };
  return sequence.committed != sequence.length &&
         (passes_page(geometry.kept_tokens()) || passes_page(geometry.visible_tokens()));
}

void SimulatedSequences::tell_all() const {
  for (Sequence& sequence : sequences_) {
    if (sequence.is_open && may_release(sequence)) tell(sequence);
  }
}

bool SimulatedSequences::reserve(SequenceId id, std::int64_t num_tokens) {
  Sequence& sequence = at(id);
  const std::int64_t end = sequence.length + num_tokens;
  if (end <= sequence.reserved) return true;
  // Sequences that are not committed yet can only make more pages free.
  const std::int64_t most_missing = pages_for(end) - pages_for(sequence.reserved);
  if (std::min(cache_.pages().num_free(), cache_.window_pages().num_free()) < most_missing) tell_all();
  tell(sequence);
  if (!table_.reserve(sequence.in_table, num_tokens)) return false;
  sequence.reserved = table_.reserved(sequence.in_table);
  return true;
}

void SimulatedSequences::feed(SequenceId id, std::int64_t num_tokens) {
  Sequence& sequence = at(id);
  sequence.length += num_tokens;
  BALEEN_CHECK_LE(sequence.length, sequence.reserved);
  // A tail is left when a sequence comes past it, and counts as used then.
  const std::optional<std::int64_t> tail = table_.next_tail(sequence.in_table);
  if (tail && *tail <= sequence.length - cache_.geometry().max_draft_tokens) tell(sequence);
}

void SimulatedSequences::feed_drafts(SequenceId id, std::int64_t num_tokens, std::int64_t num_kept) {
  Sequence& sequence = at(id);
  tell(sequence);
  const std::int64_t kept_end = sequence.length + num_kept;
  table_.commit(sequence.in_table, tokens(sequence.stream, sequence.length, sequence.length + num_tokens));
  if (num_kept < num_tokens) table_.truncate(sequence.in_table, kept_end);
  sequence.length = sequence.committed = kept_end;
  sequence.reserved = table_.reserved(sequence.in_table);
}

void SimulatedSequences::share(SequenceId id) {
  tell(at(id));
  table_.share(at(id).in_table);
}

void SimulatedSequences::close(SequenceId id, bool keep) {
  Sequence& sequence = at(id);
  BALEEN_CHECK(sequence.is_open);
  tell(sequence);
  table_.close(sequence.in_table, keep);
  sequence.is_open = false;
  free_ids_.push_back(id);
}

CacheUse SimulatedSequences::cache_use() const {
  tell_all();
  return table_.cache_use();
}

void SimulatedSequences::check_integrity() const {
  tell_all();
  table_.check_integrity();
}

}  // namespace baleen
