#include "engine/sequence_table.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace baleen {
namespace {

/// Tails that are kept within prefixes take at most this part of the window pages: 1 in so many.
constexpr std::int64_t kKeptTailShare = 4;

PoolUse pool_use(const PageAllocator& pool, std::int64_t cached, std::int64_t in_use) {
  const PoolUse use{pool.num_pages(), pool.num_free(), cached, in_use};
  BALEEN_CHECK_EQ(use.free + use.cached + use.in_use, use.total);
  return use;
}

}  // namespace

SequenceTable::SequenceTable(KvCache& cache, std::int64_t reserved_tails, bool bounds_replay)
    : cache_(cache), bounds_replay_(bounds_replay) {
  if (!cache.geometry().shares_prefixes) return;
  const RadixTreeOptions options{
      .window_tokens = cache.geometry().window_tokens,
      .reserved_tails = reserved_tails,
      .max_kept_tails = std::max<std::int64_t>(1, cache.window_pages().num_pages() / kKeptTailShare)};
  tree_ = std::make_unique<RadixTree>(cache.pages(), cache.window_pages(), options);
}

SequenceTable::~SequenceTable() {
  while (!sequences_.empty()) close(sequences_.begin()->first, false);
}

std::optional<SequenceId> SequenceTable::open(std::span<const TokenId> prompt, std::int64_t decoder_begin) {
  SequencePages pages(cache_);
  if (!pages.ok()) return std::nullopt;
  Sequence sequence{.pages = std::move(pages), .decoder_begin = decoder_begin};
  if (tree_ && !prompt.empty()) start_from_cache(sequence, prompt);
  const auto id = static_cast<SequenceId>(next_id_++);
  sequences_.emplace(id, std::move(sequence));
  return id;
}

std::int64_t SequenceTable::cached_tokens(std::span<const TokenId> prompt) {
  return tree_ && !prompt.empty() ? tree_->match(prompt.first(prompt.size() - 1)).num_tokens : 0;
}

void SequenceTable::start_from_cache(Sequence& sequence, std::span<const TokenId> prompt) {
  std::int64_t most_found = std::ssize(prompt) - 1;
  if (bounds_replay_) most_found = std::min(most_found, sequence.decoder_begin);
  const std::span<const TokenId> prefix = prompt.first(static_cast<std::size_t>(most_found));
  PrefixMatch found = tree_->match(prefix);
  if (found.num_tokens > 0) move_lock(sequence, found.node);
  if (archive_) found = extend_from_disk(sequence, prefix, std::move(found));
  if (found.num_tokens > 0) {
    sequence.pages.borrow(found.pages, found.window_pages);
    cache_.restore_rings(found.window_pages.back(), sequence.pages.state_slot(), found.num_tokens);
  }
  sequence.opened_at = found.num_tokens;
  if (archive_ && archive_->replays()) start_replay(sequence, prefix);
  sequence.tokens.assign(prefix.begin(), prefix.begin() + sequence.opened_at);
  sequence.keys.resize(std::min(sequence.keys.size(), sequence.tokens.size() / kPageTokens));
  sequence.step_begin = sequence.settled = sequence.opened_at;
  sequence.lookup = tree_->explain(prompt.first(prefix.size() + 1), sequence.opened_at);
  sequence.lookup.prompt_tokens = std::ssize(prompt);
  if (sequence.lookup.lost_tokens > 0) want_tail(sequence, sequence.opened_at + sequence.lookup.lost_tokens);
  if (bounds_replay_) want_tail(sequence, sequence.decoder_begin);
}

void SequenceTable::want_tail(Sequence& sequence, std::int64_t end) const {
  end = end / kPageTokens * kPageTokens;
  if (end <= std::max(sequence.settled, sequence.replay_end) || end > shareable(sequence, end)) return;
  const auto at = std::ranges::lower_bound(sequence.tails, end, std::greater<>());
  if (at == sequence.tails.end() || *at != end) sequence.tails.insert(at, end);
}

void SequenceTable::keep_tail(SequenceId id, std::int64_t end) {
  if (tree_) want_tail(sequences_.at(id), end);
}

std::optional<std::int64_t> SequenceTable::next_tail(SequenceId id) const {
  const std::vector<std::int64_t>& tails = sequences_.at(id).tails;
  return tails.empty() ? std::nullopt : std::optional(tails.back());
}

void SequenceTable::leave_tails(Sequence& sequence, std::int64_t end) {
  for (; !sequence.tails.empty() && sequence.tails.back() <= end; sequence.tails.pop_back()) {
    const std::int64_t tail = sequence.tails.back();
    RadixNode* const node = share_pages(sequence, tail / kPageTokens, tail);
    if (node != nullptr) tree_->keep_tail(node);
  }
}

void SequenceTable::move_lock(Sequence& sequence, RadixNode* node) {
  const PrefixLock lock = tree_->lock(node);
  if (sequence.lock) tree_->unlock(*sequence.lock);
  sequence.lock = lock;
}

std::int64_t SequenceTable::length(SequenceId id) const {
  return static_cast<std::int64_t>(sequences_.at(id).tokens.size());
}
std::span<const TokenId> SequenceTable::tokens(SequenceId id) const { return sequences_.at(id).tokens; }
std::int64_t SequenceTable::opened_at(SequenceId id) const { return sequences_.at(id).opened_at; }

std::int64_t SequenceTable::shared_tokens(SequenceId id) const {
  return sequences_.at(id).pages.num_borrowed() * kPageTokens;
}

bool SequenceTable::reserve(SequenceId id, std::int64_t num_tokens) {
  SequencePages& pages = sequences_.at(id).pages;
  const std::int64_t end = length(id) + num_tokens;
  return pages.reach(end) || (make_room(pages.missing(end)) && pages.reach(end));
}

bool SequenceTable::make_room(PageCounts wanted) {
  if (!tree_) return false;
  const auto pages_short = [&] {
    return std::max<std::int64_t>(0, wanted.pages - cache_.pages().num_free());
  };
  const auto windows_short = [&] {
    return std::max<std::int64_t>(0, wanted.window_pages - cache_.window_pages().num_free());
  };
  if (pages_short() > tree_->evictable_pages()) return false;
  // The lock is given up late: a leaf would lose its window pages with it, and no later prompt would find it.
  if (windows_short() > tree_->evictable_window_pages()) release_windows_behind();
  if (windows_short() > tree_->evictable_window_pages()) return false;
  tree_->evict(pages_short(), windows_short());
  return pages_short() == 0 && windows_short() == 0;
}

void SequenceTable::release_windows_behind() {
  for (auto& [id, sequence] : sequences_) {
    if (!sequence.lock || sequence.lock->window_released || sequence.pages.sees_borrowed()) continue;
    tree_->release_window(*sequence.lock);
  }
}

std::int64_t SequenceTable::reserved(SequenceId id) const {
  return static_cast<std::int64_t>(sequences_.at(id).pages.window_pages().size()) * kPageTokens;
}

void SequenceTable::give_back(SequenceId id, std::int64_t num_positions) {
  BALEEN_CHECK_LE(length(id), num_positions);
  sequences_.at(id).pages.shrink(num_positions);
}

bool SequenceTable::expect(SequenceId id, std::int64_t end) {
  SequencePages& pages = sequences_.at(id).pages;
  return pages.reach(end, end) || (make_room(pages.missing(end, end)) && pages.reach(end, end));
}

void SequenceTable::adopt(SequenceId id, std::vector<TokenId> tokens, std::int64_t first_window_page,
                          bool has_streams) {
  Sequence& sequence = sequences_.at(id);
  BALEEN_CHECK_LE(length(id), std::ssize(tokens));
  if (first_window_page > sequence.pages.num_borrowed())
    sequence.pages.leave_windows_before(first_window_page);
  sequence.tokens = std::move(tokens);
  sequence.step_begin = sequence.settled = length(id);
  if (!has_streams) sequence.opened_at = sequence.settled;
}

SequenceSlice SequenceTable::slice(SequenceId id, std::int64_t first_row, std::int64_t num_tokens) const {
  const Sequence& sequence = sequences_.at(id);
  return {.first_row = first_row,
          .num_tokens = num_tokens,
          .start = length(id),
          .pages = sequence.pages.pages(),
          .window_pages = sequence.pages.window_pages(),
          .state_slot = sequence.pages.state_slot(),
          .window_begin = sequence.replay_end > 0 ? sequence.opened_at : 0,
          .entries_until = sequence.replay_end,
          .tokens_before = sequence.tokens};
}

void SequenceTable::commit(SequenceId id, std::span<const TokenId> tokens) {
  extend(id, tokens);
  settle(id, length(id));
}

void SequenceTable::extend(SequenceId id, std::span<const TokenId> tokens) {
  Sequence& sequence = sequences_.at(id);
  sequence.step_begin = length(id);
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
}

void SequenceTable::name(SequenceId id, std::int64_t position, TokenId token) {
  Sequence& sequence = sequences_.at(id);
  BALEEN_CHECK_LE(sequence.settled, position);
  sequence.tokens.at(static_cast<std::size_t>(position)) = token;
}

void SequenceTable::settle(SequenceId id, std::int64_t length) {
  Sequence& sequence = sequences_.at(id);
  BALEEN_CHECK(sequence.settled <= length && length <= std::ssize(sequence.tokens));
  // Before window rows are left behind.
  if (archive_) archive(sequence, sequence.settled / kPageTokens, length / kPageTokens, false);
  // What a step may take back is not shared.
  leave_tails(sequence, shareable(sequence, length - cache_.geometry().max_draft_tokens));
  sequence.pages.leave_behind(length);
  sequence.settled = length;
}

void SequenceTable::truncate(SequenceId id, std::int64_t length) {
  Sequence& sequence = sequences_.at(id);
  const auto old_length = static_cast<std::int64_t>(sequence.tokens.size());
  BALEEN_CHECK_LE(old_length - cache_.geometry().max_draft_tokens, length);
  BALEEN_CHECK_LE(sequence.step_begin, length);
  BALEEN_CHECK_LE(sequence.pages.num_borrowed() * kPageTokens, length);
  BALEEN_CHECK_LE(length, old_length);
  sequence.tokens.resize(static_cast<std::size_t>(length));
  sequence.settled = std::min(sequence.settled, length);
  sequence.keys.resize(std::min(sequence.keys.size(), static_cast<std::size_t>(length / kPageTokens)));
  sequence.pages.shrink(length);
}

std::int64_t SequenceTable::shareable(const Sequence& sequence, std::int64_t end) const {
  return bounds_replay_ ? std::min(end, sequence.decoder_begin) : end;
}

void SequenceTable::share(SequenceId id) {
  // The tail before the decoder half was left as the sequence came past.
  if (!bounds_replay_) share_all(sequences_.at(id));
}

void SequenceTable::share_all(Sequence& sequence) {
  leave_tails(sequence, sequence.settled);
  share_pages(sequence, sequence.settled / kPageTokens, sequence.settled);
}

RadixNode* SequenceTable::share_pages(Sequence& sequence, std::int64_t num_pages, std::int64_t next) {
  SequencePages& pages = sequence.pages;
  if (!tree_ || num_pages <= pages.num_borrowed() || num_pages * kPageTokens < sequence.replay_end)
    return nullptr;
  // Of adopted sequences: a later page will have its window rows.
  if (num_pages - pages_for(cache_.geometry().window_tokens) < pages.first_window_page()) return nullptr;
  if (archive_) archive(sequence, num_pages - 1, num_pages, true);
  pages.leave_tail(num_pages);
  const auto count = static_cast<std::size_t>(num_pages);
  const PrefixInsertion inserted =
      tree_->insert(std::span(sequence.tokens).first(count * kPageTokens), pages.pages().first(count),
                    pages.window_pages().first(count), pages.num_borrowed() * kPageTokens,
                    pages.first_window_page() * kPageTokens);
  BALEEN_CHECK_EQ(inserted.path.num_tokens, num_pages * kPageTokens);
  move_lock(sequence, inserted.path.node);
  pages.hand_over(inserted.path.pages, inserted.path.window_pages, next);
  return inserted.path.node;
}

void SequenceTable::close(SequenceId id, bool keep) {
  Sequence& sequence = sequences_.at(id);
  if (keep) share_all(sequence);
  if (sequence.lock) tree_->unlock(*sequence.lock);
  sequences_.erase(id);
}

PageCounts SequenceTable::owned() const {
  PageCounts sum;
  for (const auto& [id, sequence] : sequences_) {
    const PageCounts own = sequence.pages.owned();
    sum.pages += own.pages;
    sum.window_pages += own.window_pages;
  }
  return sum;
}

CacheUse SequenceTable::cache_use() const {
  const PageCounts own = owned();
  return {pool_use(cache_.pages(), tree_ ? tree_->num_pages() : 0, own.pages),
          pool_use(cache_.window_pages(), tree_ ? tree_->num_window_pages() : 0, own.window_pages),
          pool_use(cache_.state_slots(), 0, static_cast<std::int64_t>(sequences_.size()))};
}

std::vector<RadixNodeSummary> SequenceTable::tree(std::size_t most_nodes) const {
  return tree_ ? tree_->summary(most_nodes) : std::vector<RadixNodeSummary>();
}

void SequenceTable::check_integrity() const {
  cache_.pages().check_integrity();
  cache_.window_pages().check_integrity();
  cache_.state_slots().check_integrity();
  if (tree_) tree_->check_integrity();
  static_cast<void>(cache_use());
}

}  // namespace baleen
