/// The shadow radix tree: which prefixes of tokens have their pages in the cache.   (source: cache
/// specification 4, 8; design 5)
///
/// A node owns a run of whole pages: their tokens, their numbers in the page pool, and their numbers in the window
/// pool. Window pages may be evicted while the rest stays: the node is then a **tombstone**. A window page holds
/// the raw KV of its 256 positions and the compressor overlap state at its end, so that what a continuation needs
/// lives and dies together.
///
///     root ── [You are a helpful assistant ...]──┬── [user A ...]
///               dead: window pages evicted       │     live leaf
///                                                └── [user B ...]── [answer ...]
///                                                      dead          live leaf
///
/// Invariants
///  1. full_lock >= window_lock >= 0; a tombstone has window_lock 0. The root has both at 1 for ever, no pages, and
///     is in no list.
///  2. Every other node is in the full list; in the window list iff it is no tombstone.
///  3. A leaf is no tombstone, except while its full lock is held and its window was released early.
///  4. In each list a child is more recently used than its parent.
///  5. Every page that the tree owns is in use in its allocator, and in one place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kv_cache/page_allocator.h"
#include "tensor/ragged_batch.h"

namespace baleen {

class RadixNode;

struct RadixTreeOptions {
  std::int64_t page_tokens = kPageTokens;  ///< positions of a page; tests use 1
  std::int64_t window_tokens = 128;        ///< live positions that a match must end with
  /// Window pages kept for the ends of recent prefixes: while others can be had, eviction leaves the last window
  /// page before the end of each of this many most recently used prefixes alone.
  std::int64_t reserved_tails = 0;
};

/// Longest usable prefix: it reaches the root without a tombstone, or its last window_tokens positions are live.
struct PrefixMatch {
  std::int64_t num_tokens = 0;       ///< whole pages
  RadixNode* node = nullptr;         ///< where it ends; the root when nothing matches
  std::vector<PageId> pages;         ///< [num_tokens / page_tokens]
  std::vector<PageId> window_pages;  ///< as long; kNone where evicted
};

/// Keeps a path from eviction; every lock is given back once.
struct PrefixLock {
  RadixNode* node = nullptr;
  std::uint64_t window_end = 0;  ///< which node ends the window's share of the lock; 0: the root
  bool window_released = false;
};

struct PrefixInsertion {
  std::int64_t existing_tokens = 0;  ///< were there before
  PrefixMatch path;                  ///< all inserted tokens, now the tree's
};

struct EvictedPages {
  std::int64_t pages = 0;
  std::int64_t window_pages = 0;
};

/// One node as a picture shows it; parents before children.
struct RadixNodeSummary {
  std::int64_t id = 0;
  std::int64_t parent = -1;  ///< id; -1: the root
  std::int64_t num_tokens = 0;
  bool tombstone = false;
  std::int64_t full_lock = 0, window_lock = 0;
  std::int64_t last_access = 0;  ///< a counter
};

class RadixTree {
 public:
  /// Pages are given back to these when evicted; both outlive the tree.
  RadixTree(PageAllocator& pages, PageAllocator& window_pages, RadixTreeOptions options);
  /// Gives every page back.
  ~RadixTree();
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  /// Only whole pages of `tokens` count. Touches the path up to the result. May split a node.
  [[nodiscard]] PrefixMatch match(std::span<const TokenId> tokens);

  [[nodiscard]] PrefixLock lock(RadixNode* node);
  void unlock(const PrefixLock& lock);
  /// Gives up the window's share of the lock, once: for a sequence that has moved more than a window past it.
  void release_window(PrefixLock& lock);

  /// Takes over the pages of `tokens` (whole pages; both lists as long as that). Window pages of positions below
  /// `window_evicted_tokens` (whole pages) are kNone. Pages below `protected_tokens` are the tree's already.
  /// Duplicates go back to their pools.
  PrefixInsertion insert(std::span<const TokenId> tokens, std::span<const PageId> pages,
                         std::span<const PageId> window_pages, std::int64_t protected_tokens,
                         std::int64_t window_evicted_tokens);

  /// Frees at least that many pages of each pool, or all that are not locked.
  EvictedPages evict(std::int64_t num_pages, std::int64_t num_window_pages);

  /// Called with a node whose window pages, or all of whose pages, are about to be freed.
  using EvictionObserver = std::function<void(const RadixNode& node, bool window_only)>;
  void observe_evictions(EvictionObserver observer);

  /// Pages owned, and of those the ones that no lock protects.
  [[nodiscard]] std::int64_t num_pages() const;
  [[nodiscard]] std::int64_t num_window_pages() const;
  [[nodiscard]] std::int64_t evictable_pages() const;
  [[nodiscard]] std::int64_t evictable_window_pages() const;

  [[nodiscard]] std::vector<RadixNodeSummary> summary(std::size_t most_nodes) const;
  /// Stops the program when an invariant is broken. O(tree).
  void check_integrity() const;
};

/// The tokens from the root to the end of `node`.
[[nodiscard]] std::vector<TokenId> tokens_to(const RadixNode& node);

}  // namespace baleen
