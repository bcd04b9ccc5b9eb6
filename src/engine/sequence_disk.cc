// What a table of sequences does with the disk tier.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/sequence_table.h"

namespace baleen {

void SequenceTable::attach(DiskTier& disk) {
  BALEEN_CHECK(tree_ && !archive_);
  archive_ = std::make_unique<PageArchive>(cache_, disk);
  tree_->observe_evictions([this](const RadixNode& node, bool) { archive_->offer(node); });
  tree_->visit([this](const RadixNode& node) { archive_->offer(node); });
  for (auto& [id, sequence] : sequences_)
    archive(sequence, sequence.pages.num_borrowed(), sequence.settled / kPageTokens, false);
}

void SequenceTable::archive(Sequence& sequence, std::int64_t first, std::int64_t end, bool ends_prefix) {
  archive_->extend_keys(sequence.keys,
                        std::span(sequence.tokens).first(static_cast<std::size_t>(end * kPageTokens)));
  // In a replay entries are the disk's own, and window rows are not exact.
  first = std::max(first, sequence.replay_end / kPageTokens);
  for (std::int64_t i = end; i-- > first;) {
    const auto at = static_cast<std::size_t>(i);
    const PagePlace place{i, sequence.pages.pages()[at], sequence.pages.window_pages()[at]};
    archive_->offer(sequence.keys, sequence.tokens, place, ends_prefix && i + 1 == end);
  }
}

PrefixMatch SequenceTable::extend_from_disk(Sequence& sequence, std::span<const TokenId> prefix,
                                            PrefixMatch found) {
  archive_->extend_keys(sequence.keys, prefix);
  const auto first = static_cast<std::int64_t>(found.pages.size());
  std::optional<LoadedPages> loaded = load_from_disk(sequence.keys, prefix, first, true, first + 1);
  if (!loaded) return found;
  std::vector<PageId> pages = found.pages;
  pages.insert(pages.end(), loaded->pages.begin(), loaded->pages.end());
  std::vector<PageId> window_pages(pages.size(), PageId::kNone);
  window_pages.back() = loaded->window_page;
  PrefixInsertion inserted = tree_->insert(prefix.first(pages.size() * kPageTokens), pages, window_pages,
                                           found.num_tokens, (loaded->end - 1) * kPageTokens);
  move_lock(sequence, inserted.path.node);
  return std::move(inserted.path);
}

void SequenceTable::start_replay(Sequence& sequence, std::span<const TokenId> prefix) {
  // Begins at Q, a page's first position; saves something when that lies beyond what was found.
  const std::int64_t depth = pages_for(cache_.geometry().window_tokens * cache_.geometry().num_blocks());
  const std::int64_t first = sequence.pages.num_borrowed();
  std::optional<LoadedPages> loaded = load_from_disk(sequence.keys, prefix, first, false, first + depth + 1);
  if (!loaded) return;
  sequence.replay_end = loaded->end * kPageTokens;
  sequence.opened_at = (loaded->end - depth) * kPageTokens;
  sequence.pages.adopt(loaded->pages, sequence.opened_at);
}

std::optional<SequenceTable::LoadedPages> SequenceTable::load_from_disk(std::span<const PageKey> keys,
                                                                        std::span<const TokenId> prefix,
                                                                        std::int64_t first, bool window,
                                                                        std::int64_t least_end) {
  // A file that proves bad is forgotten by the disk tier: another turn finds a shorter run.
  while (true) {
    LoadedPages loaded{.end = archive_->end_of_run(keys, first, window)};
    if (loaded.end < least_end) return std::nullopt;
    const PageCounts wanted{loaded.end - first, window ? 1 : 0};
    if (cache_.pages().num_free() < wanted.pages || cache_.window_pages().num_free() < wanted.window_pages) {
      if (!make_room(wanted)) return std::nullopt;
    }
    if (window) loaded.window_page = *cache_.window_pages().allocate();
    std::vector<PagePlace> places;
    for (std::int64_t i = first; i < loaded.end; ++i) {
      loaded.pages.push_back(*cache_.pages().allocate());
      places.push_back({i, loaded.pages.back(), i + 1 == loaded.end ? loaded.window_page : PageId::kNone});
    }
    if (archive_->load(keys, prefix, places)) return loaded;
    free(loaded);
  }
}

void SequenceTable::free(const LoadedPages& loaded) {
  for (const PageId page : loaded.pages) cache_.pages().free(page);
  if (loaded.window_page != PageId::kNone) cache_.window_pages().free(loaded.window_page);
}

}  // namespace baleen
