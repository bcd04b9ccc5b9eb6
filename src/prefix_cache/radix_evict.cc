// Eviction: whole nodes from the leaves, window pages from anywhere.
#include "base/check.h"
#include "prefix_cache/radix_tree.h"

namespace baleen {

EvictedPages RadixTree::evict(std::int64_t num_pages, std::int64_t num_window_pages) {
  EvictedPages freed;
  evict_leaves(num_pages, freed);
  if (options_.reserved_tails > 0) {
    const std::int64_t reserved_from = oldest_reserved_access();
    evict_windows(num_window_pages, freed,
                  [=](const RadixNode& node) { return !node.is_tail() || node.last_access < reserved_from; });
  }
  evict_windows(num_window_pages, freed, [](const RadixNode&) { return true; });
  return freed;
}

// Unlocked leaves, least recently used first, in one pass: of the nodes passed over, only the parent of a
// removed leaf can have become one.
void RadixTree::evict_leaves(std::int64_t num_pages, EvictedPages& freed) {
  const auto may_go = [](const RadixNode& node) { return node.is_leaf() && node.full_lock == 0; };
  RadixNode* node = full_list_.oldest();
  while (node != nullptr && freed.pages < num_pages) {
    RadixNode* next = FullList::newer(*node);
    if (may_go(*node)) {
      RadixNode* parent = remove_leaf(*node, freed);
      while (parent->is_dead_leaf()) {
        if (parent == next) next = FullList::newer(*next);
        parent = remove_leaf(*parent, freed);
      }
      if (may_go(*parent) && (next == nullptr || parent->last_access < next->last_access)) next = parent;
    }
    node = next;
  }
}

template <class MayEvict>
void RadixTree::evict_windows(std::int64_t num_window_pages, EvictedPages& freed, MayEvict may_evict) {
  RadixNode* node = window_list_.oldest();
  while (node != nullptr && freed.window_pages < num_window_pages) {
    RadixNode* next = WindowList::newer(*node);
    if (node->window_lock == 0 && may_evict(*node)) {
      if (node->is_leaf() && node->full_lock == 0) {
        remove_dead_leaves(remove_leaf(*node, freed), freed);  // tombstones, so `next` stays
      } else {
        free_window(*node, freed);
      }
    }
    node = next;
  }
}

// Tails used then or later are reserved. Locked ones do not count: they cannot be taken anyway, and many
// running sequences shall not use up what is kept for the idle.
std::int64_t RadixTree::oldest_reserved_access() const {
  std::int64_t tails_left = options_.reserved_tails;
  for (const RadixNode* node = window_list_.newest(); node != nullptr; node = WindowList::older(*node)) {
    if (node->window_lock == 0 && node->is_tail() && --tails_left == 0) return node->last_access;
  }
  return 0;
}

void RadixTree::free_window(RadixNode& node, EvictedPages& freed) {
  if (observer_) observer_(node, true);
  leave_counters(node);
  window_list_.remove(node);
  for (const PageId page : node.window_pages) window_pool_.free(page);
  freed.window_pages += static_cast<std::int64_t>(node.window_pages.size());
  node.window_pages.clear();
  node.kept_tail = false;
  node.lost_windows = true;
  enter_counters(node);
}

void RadixTree::keep_tail(RadixNode* node) {
  if (node->is_root() || node->tombstone()) return;
  node->kept_tail = true;
  EvictedPages freed;
  std::int64_t left = options_.max_kept_tails;
  for (RadixNode* at = window_list_.newest(); at != nullptr;) {
    RadixNode* const older = WindowList::older(*at);
    if (at->kept_tail && !at->is_leaf() && at->window_lock == 0 && left-- <= 0) free_window(*at, freed);
    at = older;
  }
}

RadixNode* RadixTree::remove_leaf(RadixNode& leaf, EvictedPages& freed) {
  BALEEN_CHECK(leaf.is_leaf() && leaf.full_lock == 0);
  if (observer_) observer_(leaf, false);
  remember_evicted(leaf);
  leave_counters(leaf);
  full_list_.remove(leaf);
  if (!leaf.tombstone()) window_list_.remove(leaf);
  for (const PageId page : leaf.pages) page_pool_.free(page);
  for (const PageId page : leaf.window_pages) window_pool_.free(page);
  freed.pages += leaf.num_pages();
  freed.window_pages += static_cast<std::int64_t>(leaf.window_pages.size());
  RadixNode* parent = leaf.parent;
  parent->children.erase(parent->children.find(first_page(leaf)));
  return parent;
}

void RadixTree::remove_dead_leaves(RadixNode* node, EvictedPages& freed) {
  while (node->is_dead_leaf()) node = remove_leaf(*node, freed);
}

}  // namespace baleen
