// Insertion: what a sequence computed becomes the tree's, and what the tree has already is freed.
#include <algorithm>

#include "base/check.h"
#include "prefix_cache/radix_tree.h"

namespace baleen {
namespace {

void free_pages(PageAllocator& pool, std::span<const PageId> pages) {
  for (const PageId page : pages) {
    if (page != PageId::kNone) pool.free(page);
  }
}

template <class T>
std::span<const T> part(std::span<const T> entries, std::int64_t begin, std::int64_t end) {
  return entries.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace

PrefixInsertion RadixTree::insert(std::span<const TokenId> tokens, std::span<const PageId> pages,
                                  std::span<const PageId> window_pages, std::int64_t protected_tokens,
                                  std::int64_t window_evicted_tokens) {
  const std::int64_t page_tokens = options_.page_tokens;
  const auto num_pages = static_cast<std::int64_t>(pages.size());
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(tokens.size()), num_pages * page_tokens);
  BALEEN_CHECK_EQ(window_pages.size(), pages.size());
  BALEEN_CHECK(protected_tokens % page_tokens == 0 && window_evicted_tokens % page_tokens == 0);
  const Incoming incoming{.tokens = tokens,
                          .pages = pages,
                          .window_pages = window_pages,
                          .num_protected = protected_tokens / page_tokens,
                          .num_window_evicted = window_evicted_tokens / page_tokens};
  BALEEN_CHECK(incoming.num_protected <= num_pages && incoming.num_window_evicted <= num_pages);
  for (std::int64_t page = incoming.num_protected; page < num_pages; ++page) {
    const bool evicted = window_pages[static_cast<std::size_t>(page)] == PageId::kNone;
    BALEEN_CHECK_EQ(evicted, page < incoming.num_window_evicted);
  }

  RadixNode* node = &root_;
  std::int64_t begin = 0;
  while (RadixNode* child = child_at(*node, tokens)) {
    const std::int64_t common = shared_pages(*child, tokens);
    if (common < child->num_pages()) child = split(*child, common);
    touch(*child);
    merge(*child, incoming, begin);
    begin += common;
    tokens = tokens.subspan(static_cast<std::size_t>(common * page_tokens));
    node = child;
  }
  if (begin < num_pages) node = append(*node, incoming, begin);
  if (!node->is_root()) {
    node->ends_insertion = true;
    // The tail on its own: locks and eviction of window pages treat it and what lies before apart.
    if (!node->tombstone() && node->num_pages() > tail_pages_) split(*node, node->num_pages() - tail_pages_);
  }
  return {.existing_tokens = begin * page_tokens, .path = path_to(node, Touch::kNo)};
}

// The pages from `begin` on meet those of `node`, which has the same tokens.
void RadixTree::merge(RadixNode& node, const Incoming& incoming, std::int64_t begin) {
  const std::int64_t end = begin + node.num_pages();
  const auto pages = part(incoming.pages, begin, end);
  if (end <= incoming.num_protected) {
    BALEEN_CHECK(std::equal(pages.begin(), pages.end(), node.pages.begin()));
    return;
  }
  BALEEN_CHECK_LE(incoming.num_protected, begin);

  const std::int64_t evicted_end = std::clamp(incoming.num_window_evicted, begin, end);
  if (!node.tombstone() || evicted_end == end) {
    free_pages(page_pool_, pages);
    free_pages(window_pool_, part(incoming.window_pages, begin, end));
    return;
  }
  if (evicted_end > begin) {
    split(node, evicted_end - begin);  // `node` is the lower part now
    free_pages(page_pool_, part(incoming.pages, begin, evicted_end));
  }
  revive(node, part(incoming.pages, evicted_end, end), part(incoming.window_pages, evicted_end, end));
}

// A tombstone gets window pages. Of the two lists of full pages the older goes, unless a running sequence
// reads it.
void RadixTree::revive(RadixNode& node, std::span<const PageId> pages, std::span<const PageId> window_pages) {
  leave_counters(node);
  if (node.full_lock > 0) {
    free_pages(page_pool_, pages);
  } else {
    free_pages(page_pool_, node.pages);
    node.pages.assign(pages.begin(), pages.end());
  }
  node.window_pages.assign(window_pages.begin(), window_pages.end());
  node.lost_windows = false;
  enter_counters(node);
  window_list_.push_newest(node);  // as in the full list, where it was touched just now
}

// The pages from `begin` on are new.
RadixNode* RadixTree::append(RadixNode& node, const Incoming& incoming, std::int64_t begin) {
  const auto end = static_cast<std::int64_t>(incoming.pages.size());
  const std::int64_t page_tokens = options_.page_tokens;
  BALEEN_CHECK_LE(incoming.num_protected, begin);
  if (incoming.num_window_evicted == end) {  // a leaf must be live
    free_pages(page_pool_, part(incoming.pages, begin, end));
    return &node;
  }
  const auto add = [&](RadixNode& parent, std::int64_t from, std::int64_t to, bool live) {
    return add_child(parent, part(incoming.tokens, from * page_tokens, to * page_tokens),
                     part(incoming.pages, from, to), part(incoming.window_pages, from, live ? to : from));
  };
  const std::int64_t live_begin = std::max(begin, incoming.num_window_evicted);
  RadixNode* parent = live_begin > begin ? add(node, begin, live_begin, false) : &node;
  return add(*parent, live_begin, end, true);
}

}  // namespace baleen
