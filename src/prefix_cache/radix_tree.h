/// The shadow radix tree: which prefixes of tokens have their pages in the cache.   (source: cache
/// specification 4, 8; design 5)
///
/// A node owns a run of whole pages: their tokens, their numbers in the page pool, and their numbers in the
/// window pool. Window pages may be evicted while the rest stays: the node is then a **tombstone**. A window
/// page holds the raw KV of its 256 positions and the compressor overlap state at its end, so that what a
/// continuation needs lives and dies together.
///
///     root ── [You are a helpful assistant ...]──┬── [user A ...]
///               dead: window pages evicted       │     live leaf
///                                                └── [user B ...]── [answer ...]
///                                                      dead          live leaf
///
/// Invariants
///  1. full_lock >= window_lock >= 0; a tombstone has window_lock 0. A lock holds every node up to the root, so a
///     node's full_lock is at least the sum of its children's. The root has both at 1 for ever, no pages, and is
///     in no list.
///  2. Every other node is in the full list; in the window list iff it is no tombstone.
///  3. A leaf is no tombstone, except while its full lock is held.
///  4. Both lists are in the order of last access. Using a node uses its ancestors just before it, so eviction of
///     window pages eats a prefix from the root's side, where the window no longer reaches.
///  5. Every page that the tree owns is in use in its allocator, and in one place.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kv_cache/page_allocator.h"
#include "prefix_cache/lru_list.h"
#include "prefix_cache/prefix_lookup.h"
#include "prefix_cache/radix_node.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct RadixTreeOptions {
  std::int64_t page_tokens = kPageTokens;  ///< positions of a page; tests use 1
  std::int64_t window_tokens = 128;        ///< live positions that a match must end with
  /// Window pages kept for the ends of idle prefixes: while others can be had, eviction leaves the tails (the
  /// last window pages before a leaf's end, or before the end of an insertion that went on in several ways)
  /// of this many most recently used prefixes alone. Without them the least recently used window page goes,
  /// wherever it lies.
  std::int64_t reserved_tails = 0;
  /// Kept tails (`keep_tail`) that have window pages at a time, beside those of leaves and of locked nodes.
  std::int64_t max_kept_tails = std::numeric_limits<std::int64_t>::max();
};

/// Longest usable prefix: it reaches the root without a tombstone, or its last window_tokens positions are
/// live.
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

  /// Only whole pages of `tokens` count. Touches the path up to the result. May split a node. The result is
  /// safe from eviction once it is locked.
  [[nodiscard]] PrefixMatch match(std::span<const TokenId> tokens);

  /// Locks the path from the root to the end of `node`, and window pages of its last window_tokens positions,
  /// which must be live: those of a match are, and of an insertion if the last window_tokens brought their
  /// window pages.
  [[nodiscard]] PrefixLock lock(RadixNode* node);
  void unlock(const PrefixLock& lock);
  /// Gives up the window's share of the lock, once: for a sequence that has moved more than a window past it.
  /// The window pages of a leaf that no other lock holds are freed at once.
  void release_window(PrefixLock& lock);

  /// Takes over the pages of `tokens` (whole pages; both lists as long as that). Window pages of positions
  /// below `window_evicted_tokens` (whole pages) are kNone. Pages below `protected_tokens` are the tree's
  /// already, and held by a lock on the node that ends there. Duplicates go back to their pools; a tombstone
  /// takes the incoming window pages. When all window pages are kNone, tokens that were not there are not
  /// inserted: their pages are freed, and the path ends before them.
  PrefixInsertion insert(std::span<const TokenId> tokens, std::span<const PageId> pages,
                         std::span<const PageId> window_pages, std::int64_t protected_tokens,
                         std::int64_t window_evicted_tokens);

  /// Other prompts than those that went on from `node` are expected to part from them there, so its window
  /// pages should stay when it gets children. `node` ends an insertion, and is locked. Where more than
  /// `max_kept_tails` are kept, the least recently used others lose their window pages.
  void keep_tail(RadixNode* node);

  /// Why no more than `found_tokens` of `prompt` were found, by `match` (of all but its last token) or beyond
  /// it, and where it parts from the nearest sequence that is here. O(prompt); changes nothing.
  [[nodiscard]] PrefixLookup explain(std::span<const TokenId> prompt, std::int64_t found_tokens) const;

  /// Frees at least that many pages of each pool, or all that are not locked.
  EvictedPages evict(std::int64_t num_pages, std::int64_t num_window_pages);

  /// Called with a node whose window pages, or all of whose pages, are about to be freed, except when the
  /// tree ends. Must not call the tree.
  using EvictionObserver = std::function<void(const RadixNode& node, bool window_only)>;
  void observe_evictions(EvictionObserver observer) { observer_ = std::move(observer); }

  /// Pages owned, and of those the ones that no lock protects. O(1).
  [[nodiscard]] std::int64_t num_pages() const { return full_use_.evictable + full_use_.locked; }
  [[nodiscard]] std::int64_t num_window_pages() const { return window_use_.evictable + window_use_.locked; }
  [[nodiscard]] std::int64_t evictable_pages() const { return full_use_.evictable; }
  [[nodiscard]] std::int64_t evictable_window_pages() const { return window_use_.evictable; }

  /// Every node but the root, parents first.
  void visit(const std::function<void(const RadixNode&)>& take) const;
  /// Breadth first.
  [[nodiscard]] std::vector<RadixNodeSummary> summary(std::size_t most_nodes) const;
  /// Stops the program when an invariant is broken. O(tree).
  void check_integrity() const;

 private:
  using FullList = LruList<&RadixNode::full_links>;
  using WindowList = LruList<&RadixNode::window_links>;

  /// Pages of one pool that the tree owns.
  struct Use {
    std::int64_t evictable = 0, locked = 0;
    [[nodiscard]] friend bool operator==(const Use&, const Use&) = default;
  };

  /// What an insertion brings. Spans hold one entry a page; positions here and below count pages.
  struct Incoming {
    std::span<const TokenId> tokens;
    std::span<const PageId> pages, window_pages;
    std::int64_t num_protected = 0, num_window_evicted = 0;
  };

  enum class Touch : std::uint8_t { kNo, kYes };

  /// How far the tree knows some tokens.
  [[nodiscard]] RadixNode* child_at(const RadixNode& node, std::span<const TokenId> tokens) const;
  [[nodiscard]] std::int64_t shared_pages(const RadixNode& node, std::span<const TokenId> tokens) const;
  [[nodiscard]] std::span<const TokenId> first_page(const RadixNode& node) const;
  PrefixMatch path_to(RadixNode* node, Touch touches);

  /// Changes of a node. The counters leave it out while its locks or pages change.
  void leave_counters(const RadixNode& node) { add_to_counters(node, -1); }
  void enter_counters(const RadixNode& node) { add_to_counters(node, 1); }
  void add_to_counters(const RadixNode& node, std::int64_t sign);
  void touch(RadixNode& node);
  /// Returns the new upper part.
  RadixNode* split(RadixNode& node, std::int64_t num_upper_pages);
  RadixNode* add_child(RadixNode& parent, std::span<const TokenId> tokens, std::span<const PageId> pages,
                       std::span<const PageId> window_pages);
  void drop_window_lock(const PrefixLock& lock);

  /// Parts of an insertion.
  void merge(RadixNode& node, const Incoming& incoming, std::int64_t begin);
  void revive(RadixNode& node, std::span<const PageId> pages, std::span<const PageId> window_pages);
  /// Returns where the path ends.
  RadixNode* append(RadixNode& node, const Incoming& incoming, std::int64_t begin);

  /// Parts of an eviction.
  void evict_leaves(std::int64_t num_pages, EvictedPages& freed);
  template <class MayEvict>
  void evict_windows(std::int64_t num_window_pages, EvictedPages& freed, MayEvict may_evict);
  [[nodiscard]] std::int64_t oldest_reserved_access() const;
  void free_window(RadixNode& node, EvictedPages& freed);
  /// Returns the parent.
  RadixNode* remove_leaf(RadixNode& leaf, EvictedPages& freed);
  void remove_dead_leaves(RadixNode* node, EvictedPages& freed);
  /// Remembers that pages behind the parent of `leaf` were here, for `explain`.
  void remember_evicted(const RadixNode& leaf);
  /// The hash of whole pages behind those that `before` is the hash of.
  [[nodiscard]] std::uint64_t hash_pages(std::uint64_t before, std::span<const TokenId> pages) const;

  PageAllocator& page_pool_;
  PageAllocator& window_pool_;
  RadixTreeOptions options_;
  std::int64_t tail_pages_;  ///< a window, in whole pages
  RadixNode root_;
  FullList full_list_;
  WindowList window_list_;
  Use full_use_, window_use_;
  EvictionObserver observer_;
  std::int64_t clock_ = 0;  ///< counts uses, for last_access
  std::int64_t last_id_ = 0;
  std::uint64_t last_window_end_ = 0;
  /// Hashes of the tokens up to the first page of nodes that were evicted lately, in order and to look up.
  std::deque<std::uint64_t> evicted_;
  std::unordered_multiset<std::uint64_t> evicted_set_;
};

}  // namespace baleen
