#include "prefix_cache/radix_tree.h"

#include <limits>

#include "base/check.h"

namespace baleen {

RadixTree::RadixTree(PageAllocator& pages, PageAllocator& window_pages, RadixTreeOptions options)
    : page_pool_(pages),
      window_pool_(window_pages),
      options_(options),
      tail_pages_((options.window_tokens + options.page_tokens - 1) / options.page_tokens) {
  BALEEN_CHECK(options.page_tokens > 0 && options.window_tokens > 0 && options.reserved_tails >= 0);
  root_.full_lock = root_.window_lock = 1;
}

RadixTree::~RadixTree() {
  for (const RadixNode* node = full_list_.oldest(); node != nullptr; node = FullList::newer(*node)) {
    for (const PageId page : node->pages) page_pool_.free(page);
    for (const PageId page : node->window_pages) window_pool_.free(page);
  }
}

PrefixMatch RadixTree::match(std::span<const TokenId> tokens) {
  constexpr std::int64_t kNoTombstoneYet = std::numeric_limits<std::int64_t>::max() / 2;
  std::int64_t live_tokens = kNoTombstoneYet;  // at the end of what was walked
  RadixNode* node = &root_;
  RadixNode* best = &root_;
  const auto is_safe = [&] { return live_tokens >= options_.window_tokens; };
  for (bool whole = true; whole;) {
    RadixNode* child = child_at(*node, tokens);
    if (child == nullptr) break;
    if (child->tombstone()) {
      if (is_safe()) best = node;
      live_tokens = 0;
    }
    const std::int64_t common = shared_pages(*child, tokens);
    whole = common == child->num_pages();
    if (!whole) child = split(*child, common);
    if (!child->tombstone()) live_tokens += child->num_tokens();
    tokens = tokens.subspan(child->tokens.size());
    node = child;
  }
  if (is_safe()) best = node;

  return path_to(best, Touch::kYes);
}

RadixNode* RadixTree::child_at(const RadixNode& node, std::span<const TokenId> tokens) const {
  const auto page_tokens = static_cast<std::size_t>(options_.page_tokens);
  if (tokens.size() < page_tokens) return nullptr;
  const auto child = node.children.find(tokens.first(page_tokens));
  return child == node.children.end() ? nullptr : child->second.get();
}

std::int64_t RadixTree::shared_pages(const RadixNode& node, std::span<const TokenId> tokens) const {
  const auto [end, other] =
      std::mismatch(node.tokens.begin(), node.tokens.end(), tokens.begin(), tokens.end());
  return (end - node.tokens.begin()) / options_.page_tokens;
}

PrefixMatch RadixTree::path_to(RadixNode* node, Touch touches) {
  PrefixMatch path{.node = node};
  std::vector<RadixNode*> nodes;
  for (RadixNode* at = node; !at->is_root(); at = at->parent) nodes.push_back(at);
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const RadixNode& part = **at;
    path.num_tokens += part.num_tokens();
    path.pages.insert(path.pages.end(), part.pages.begin(), part.pages.end());
    path.window_pages.insert(path.window_pages.end(), part.window_pages.begin(), part.window_pages.end());
    path.window_pages.resize(path.pages.size(), PageId::kNone);
    if (touches == Touch::kYes) touch(**at);
  }
  return path;
}

PrefixLock RadixTree::lock(RadixNode* node) {
  PrefixLock lock{.node = node};
  std::int64_t window_left = options_.window_tokens;
  for (RadixNode* at = node; !at->is_root(); at = at->parent) {
    leave_counters(*at);
    ++at->full_lock;
    if (window_left > 0) {
      BALEEN_CHECK(!at->tombstone());
      ++at->window_lock;
      window_left -= at->num_tokens();
      if (window_left <= 0) {
        if (at->window_end == 0) at->window_end = ++last_window_end_;
        lock.window_end = at->window_end;
      }
    }
    enter_counters(*at);
  }
  return lock;
}

void RadixTree::unlock(const PrefixLock& lock) {
  if (!lock.window_released) drop_window_lock(lock);
  for (RadixNode* node = lock.node; !node->is_root(); node = node->parent) {
    BALEEN_CHECK_LT(0, node->full_lock);
    leave_counters(*node);
    --node->full_lock;
    enter_counters(*node);
  }
  EvictedPages freed;
  remove_dead_leaves(lock.node, freed);  // a leaf whose window was released
}

void RadixTree::release_window(PrefixLock& lock) {
  BALEEN_CHECK(!lock.window_released);
  drop_window_lock(lock);
  lock.window_released = true;
  RadixNode& node = *lock.node;
  EvictedPages freed;
  if (node.is_leaf() && !node.is_root() && node.window_lock == 0) free_window(node, freed);
}

void RadixTree::drop_window_lock(const PrefixLock& lock) {
  for (RadixNode* node = lock.node; !node->is_root(); node = node->parent) {
    BALEEN_CHECK_LT(0, node->window_lock);
    leave_counters(*node);
    --node->window_lock;
    enter_counters(*node);
    if (lock.window_end != 0 && node->window_end == lock.window_end) break;
  }
}

void RadixTree::add_to_counters(const RadixNode& node, std::int64_t sign) {
  (node.full_lock > 0 ? full_use_.locked : full_use_.evictable) += sign * node.num_pages();
  (node.window_lock > 0 ? window_use_.locked : window_use_.evictable) +=
      sign * static_cast<std::int64_t>(node.window_pages.size());
}

void RadixTree::touch(RadixNode& node) {
  node.last_access = ++clock_;
  full_list_.remove(node);
  full_list_.push_newest(node);
  if (node.tombstone()) return;
  window_list_.remove(node);
  window_list_.push_newest(node);
}

RadixNode* RadixTree::add_child(RadixNode& parent, std::span<const TokenId> tokens,
                                std::span<const PageId> pages, std::span<const PageId> window_pages) {
  auto node = std::make_unique<RadixNode>();
  node->id = ++last_id_;
  node->parent = &parent;
  node->hash_before = hash_pages(parent.hash_before, parent.tokens);
  node->tokens.assign(tokens.begin(), tokens.end());
  node->pages.assign(pages.begin(), pages.end());
  node->window_pages.assign(window_pages.begin(), window_pages.end());
  node->last_access = ++clock_;
  full_list_.push_newest(*node);
  if (!node->tombstone()) window_list_.push_newest(*node);
  enter_counters(*node);
  RadixNode* added = node.get();
  parent.children.emplace(first_page(*added), std::move(node));
  return added;
}

// Before:   parent ── [ node            ] ── children
// After:    parent ── [ upper ]── [ node ] ── children
//
// `node` stays the lower part, so that locks and matches that end at it still do. A window lock that ended at
// it ends at the upper part now: it holds all of what was one node.
RadixNode* RadixTree::split(RadixNode& node, std::int64_t num_upper_pages) {
  BALEEN_CHECK(num_upper_pages > 0 && num_upper_pages < node.num_pages());
  const auto num_pages = static_cast<std::size_t>(num_upper_pages);
  const std::size_t num_tokens = num_pages * static_cast<std::size_t>(options_.page_tokens);
  RadixNode& parent = *node.parent;
  auto lower = std::move(parent.children.extract(first_page(node)).mapped());
  leave_counters(node);

  const std::span<const TokenId> tokens(node.tokens);
  const std::span<const PageId> pages(node.pages), window_pages(node.window_pages);
  RadixNode* upper = add_child(parent, tokens.first(num_tokens), pages.first(num_pages),
                               window_pages.first(node.tombstone() ? 0 : num_pages));
  leave_counters(*upper);
  upper->full_lock = node.full_lock;
  upper->window_lock = node.window_lock;
  upper->window_end = std::exchange(node.window_end, 0);
  upper->lost_windows = node.lost_windows;
  enter_counters(*upper);

  const auto erase_front = [](auto& entries, std::size_t count) {
    entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count));
  };
  if (!node.tombstone()) erase_front(node.window_pages, num_pages);
  erase_front(node.tokens, num_tokens);
  erase_front(node.pages, num_pages);
  enter_counters(node);
  node.parent = upper;
  node.hash_before = hash_pages(upper->hash_before, upper->tokens);
  upper->children.emplace(first_page(node), std::move(lower));
  touch(node);
  return upper;
}

std::span<const TokenId> RadixTree::first_page(const RadixNode& node) const {
  return std::span(node.tokens).first(static_cast<std::size_t>(options_.page_tokens));
}

}  // namespace baleen
