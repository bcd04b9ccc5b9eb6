/// A node of the radix tree: a run of whole pages behind one parent.
///
/// Only the tree changes nodes; everyone else reads them (what to write to disk before an eviction, for one).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

struct RadixNode;

/// A node's place in one list of recent use.
struct LruLinks {
  RadixNode* older = nullptr;
  RadixNode* newer = nullptr;
};

struct LexicographicLess {
  bool operator()(std::span<const TokenId> a, std::span<const TokenId> b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

struct RadixNode {
  std::int64_t id = 0;  ///< never used again
  RadixNode* parent = nullptr;
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  std::vector<PageId> window_pages;  ///< as many; none in a tombstone
  /// By the child's first page of tokens. Keys point into the child's `tokens`.
  std::map<std::span<const TokenId>, std::unique_ptr<RadixNode>, LexicographicLess> children;

  std::int64_t full_lock = 0, window_lock = 0;
  /// Names this node as the root's end of the window's share of locks; 0: of none.
  std::uint64_t window_end = 0;
  bool ends_insertion = false;  ///< the tokens to here were inserted as a whole once
  bool kept_tail = false;  ///< its window pages are kept for others than its children (RadixTree::keep_tail)
  bool lost_windows = false;      ///< a tombstone that had window pages once
  std::uint64_t hash_before = 0;  ///< digest of all tokens before it, page by page (RadixTree::hash_pages)
  std::int64_t last_access = 0;
  LruLinks full_links, window_links;

  [[nodiscard]] std::int64_t num_pages() const { return static_cast<std::int64_t>(pages.size()); }
  [[nodiscard]] std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  [[nodiscard]] bool tombstone() const { return window_pages.empty(); }
  [[nodiscard]] bool is_root() const { return parent == nullptr; }
  [[nodiscard]] bool is_leaf() const { return children.empty(); }
  /// Prefixes that a later request is likely to extend end here: where nothing went on, or several did. Where
  /// one went on (a session's earlier turns) its end counts.
  [[nodiscard]] bool is_tail() const { return is_leaf() || (ends_insertion && children.size() > 1); }
  /// Nothing can end here any more, and no request reads it.
  [[nodiscard]] bool is_dead_leaf() const { return is_leaf() && tombstone() && full_lock == 0; }
};

/// The tokens from the root to the end of `node`.
[[nodiscard]] std::vector<TokenId> tokens_to(const RadixNode& node);

}  // namespace baleen
