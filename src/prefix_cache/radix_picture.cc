// What others see of the tree as a whole: a summary, and proof that it is sound.
#include <deque>
#include <set>

#include "base/check.h"
#include "prefix_cache/radix_tree.h"

namespace baleen {
namespace {

/// Every node but the root, parents first.
template <class Visit>
void visit_breadth_first(const RadixNode& root, Visit visit) {
  std::deque<const RadixNode*> waiting{&root};
  while (!waiting.empty()) {
    const RadixNode& node = *waiting.front();
    waiting.pop_front();
    for (const auto& [first_page, child] : node.children) waiting.push_back(child.get());
    if (!node.is_root() && !visit(node)) return;
  }
}

/// Invariants 1 and 3, and the shape of one node.
void check_node(const RadixNode& node, const RadixTreeOptions& options) {
  BALEEN_CHECK_LT(0, node.num_pages());
  BALEEN_CHECK_EQ(node.num_tokens(), node.num_pages() * options.page_tokens);
  BALEEN_CHECK(node.tombstone() || node.window_pages.size() == node.pages.size());
  BALEEN_CHECK_LE(0, node.window_lock);
  BALEEN_CHECK_LE(node.window_lock, node.full_lock);
  if (node.tombstone()) BALEEN_CHECK_EQ(node.window_lock, 0);
  BALEEN_CHECK(!node.is_dead_leaf());
}

void check_children(const RadixNode& node, const RadixTreeOptions& options) {
  std::int64_t locks_of_children = 0;
  for (const auto& [first_page, child] : node.children) {
    BALEEN_CHECK(child->parent == &node);
    BALEEN_CHECK_EQ(static_cast<std::int64_t>(first_page.size()), options.page_tokens);
    BALEEN_CHECK(first_page.data() == child->tokens.data());
    locks_of_children += child->full_lock;
  }
  if (!node.is_root()) BALEEN_CHECK_LE(locks_of_children, node.full_lock);
}

/// Invariant 4. Returns the length.
template <class List>
std::int64_t check_order(const List& list) {
  std::int64_t num_nodes = 0;
  const RadixNode* previous = nullptr;
  for (const RadixNode* node = list.oldest(); node != nullptr; node = List::newer(*node)) {
    BALEEN_CHECK(List::older(*node) == previous);
    if (previous != nullptr) BALEEN_CHECK_LT(previous->last_access, node->last_access);
    previous = node;
    ++num_nodes;
  }
  BALEEN_CHECK(list.newest() == previous);
  return num_nodes;
}

/// Invariant 5, as far as it shows from here.
void check_pages(const std::vector<PageId>& owned, const PageAllocator& pool) {
  BALEEN_CHECK_EQ(std::set<PageId>(owned.begin(), owned.end()).size(), owned.size());
  BALEEN_CHECK_LE(static_cast<std::int64_t>(owned.size()), pool.num_pages() - pool.num_free());
  for (const PageId page : owned) BALEEN_CHECK(page > PageId::kNone);
}

}  // namespace

void RadixTree::visit(const std::function<void(const RadixNode&)>& take) const {
  visit_breadth_first(root_, [&](const RadixNode& node) {
    take(node);
    return true;
  });
}

std::vector<RadixNodeSummary> RadixTree::summary(std::size_t most_nodes) const {
  std::vector<RadixNodeSummary> nodes;
  visit_breadth_first(root_, [&](const RadixNode& node) {
    if (nodes.size() >= most_nodes) return false;
    nodes.push_back({.id = node.id,
                     .parent = node.parent->is_root() ? -1 : node.parent->id,
                     .num_tokens = node.num_tokens(),
                     .tombstone = node.tombstone(),
                     .full_lock = node.full_lock,
                     .window_lock = node.window_lock,
                     .last_access = node.last_access});
    return true;
  });
  return nodes;
}

void RadixTree::check_integrity() const {
  std::vector<PageId> pages, window_pages;
  std::int64_t num_nodes = 0, num_live = 0;
  Use full_use, window_use;
  check_children(root_, options_);
  BALEEN_CHECK(root_.full_lock == 1 && root_.window_lock == 1 && root_.pages.empty());
  visit_breadth_first(root_, [&](const RadixNode& node) {
    check_node(node, options_);
    check_children(node, options_);
    ++num_nodes;
    if (!node.tombstone()) ++num_live;
    pages.insert(pages.end(), node.pages.begin(), node.pages.end());
    window_pages.insert(window_pages.end(), node.window_pages.begin(), node.window_pages.end());
    (node.full_lock > 0 ? full_use.locked : full_use.evictable) += node.num_pages();
    (node.window_lock > 0 ? window_use.locked : window_use.evictable) +=
        static_cast<std::int64_t>(node.window_pages.size());
    return true;
  });
  BALEEN_CHECK_EQ(check_order(full_list_), num_nodes);
  BALEEN_CHECK_EQ(check_order(window_list_), num_live);
  BALEEN_CHECK(full_use == full_use_);
  BALEEN_CHECK(window_use == window_use_);
  check_pages(pages, page_pool_);
  check_pages(window_pages, window_pool_);
}

}  // namespace baleen
