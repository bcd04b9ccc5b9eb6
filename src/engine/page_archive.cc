#include "engine/page_archive.h"

#include <optional>
#include <ranges>
#include <utility>

namespace baleen {
namespace {

std::span<const TokenId> tokens_of_page(std::span<const TokenId> tokens, std::int64_t page_idx) {
  return tokens.subspan(static_cast<std::size_t>(page_idx * kPageTokens), kPageTokens);
}

}  // namespace

PageArchive::PageArchive(KvCache& cache, DiskTier& tier)
    : cache_(cache), tier_(tier), root_(root_key(tier.options().fingerprint)) {}

void PageArchive::extend_keys(std::vector<PageKey>& keys, std::span<const TokenId> tokens) const {
  const std::size_t num_pages = tokens.size() / kPageTokens;
  if (keys.size() > num_pages) keys.resize(num_pages);
  while (keys.size() < num_pages) {
    const PageKey parent = keys.empty() ? root_ : keys.back();
    keys.push_back(page_key(parent, tokens_of_page(tokens, static_cast<std::int64_t>(keys.size()))));
  }
}

void PageArchive::offer(std::span<const PageKey> keys, std::span<const TokenId> tokens,
                        const PagePlace& place, bool ends_prefix) {
  const PageKey& key = keys[static_cast<std::size_t>(place.page_idx)];
  const DiskTier::Presence presence = tier_.presence(key);
  const bool window = place.window_page != PageId::kNone && tier_.wants_window(place.page_idx, ends_prefix);
  if (presence == DiskTier::Presence::kPageAndWindow) return;
  if (presence == DiskTier::Presence::kPage && !window) return;
  const CacheGeometry& geometry = cache_.geometry();
  if (!tier_.has_room(geometry.page_bytes() + (window ? geometry.window_page_bytes() : 0))) return;
  std::vector<std::byte> page(static_cast<std::size_t>(geometry.page_bytes())), window_rows;
  cache_.read_page(place.page, page);
  if (window) {
    window_rows.resize(static_cast<std::size_t>(geometry.window_page_bytes()));
    cache_.read_window_page(place.window_page, window_rows);
  }
  tier_.store(key, tokens_of_page(tokens, place.page_idx), std::move(page), std::move(window_rows));
}

void PageArchive::offer(const RadixNode& node) {
  const std::vector<TokenId> tokens = tokens_to(node);
  std::vector<PageKey> keys;
  extend_keys(keys, tokens);
  const auto first = static_cast<std::int64_t>(keys.size()) - node.num_pages();
  for (std::int64_t i = node.num_pages(); i-- > 0;) {
    const auto at = static_cast<std::size_t>(i);
    offer(keys, tokens, {first + i, node.pages[at], node.tombstone() ? PageId::kNone : node.window_pages[at]},
          node.is_tail() && i + 1 == node.num_pages());
  }
}

std::int64_t PageArchive::end_of_run(std::span<const PageKey> keys, std::int64_t first, bool window) const {
  std::int64_t end = first;
  for (std::int64_t page = first; page < static_cast<std::int64_t>(keys.size()); ++page) {
    const DiskTier::Presence presence = tier_.presence(keys[static_cast<std::size_t>(page)]);
    if (presence == DiskTier::Presence::kAbsent) break;
    if (!window || presence == DiskTier::Presence::kPageAndWindow) end = page + 1;
  }
  return end;
}

bool PageArchive::load(std::span<const PageKey> keys, std::span<const TokenId> tokens,
                       std::span<const PagePlace> places) {
  for (const PagePlace& place :
       std::views::reverse(places)) {  // the disk tier forgets the end of a prefix first
    const PageKey& key = keys[static_cast<std::size_t>(place.page_idx)];
    if (!load_page(key, tokens_of_page(tokens, place.page_idx), place)) return false;
  }
  return true;
}

bool PageArchive::load_page(const PageKey& key, std::span<const TokenId> page_tokens,
                            const PagePlace& place) {
  const std::optional<StoredPage> stored = tier_.load(key, page_tokens);
  if (!stored) return false;
  cache_.write_page(place.page, stored->page);
  if (place.window_page == PageId::kNone) return true;
  if (stored->window.empty()) return false;
  cache_.write_window_page(place.window_page, stored->window);
  return true;
}

}  // namespace baleen
