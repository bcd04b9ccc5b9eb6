/// Moves pages between the pools and the disk tier, by the keys of their prefixes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "disk_tier/disk_tier.h"
#include "kv_cache/kv_cache.h"
#include "prefix_cache/radix_node.h"

namespace baleen {

/// Where a page is, in the prefix and in the pools.
struct PagePlace {
  std::int64_t page_idx = 0;
  PageId page = PageId::kNone;
  PageId window_page = PageId::kNone;  ///< none: evicted, or not wanted
};

/// Not thread-safe; both must outlive it.
class PageArchive {
 public:
  PageArchive(KvCache& cache, DiskTier& tier);

  /// Makes `keys` those of all whole pages of `tokens`; what is there already is taken for right.
  void extend_keys(std::vector<PageKey>& keys, std::span<const TokenId> tokens) const;

  /// Queues a page unless the disk has it, with its window rows if the policy wants them. `tokens`: of the
  /// whole prefix. A full queue loses it: the disk tier counts those.
  void offer(std::span<const PageKey> keys, std::span<const TokenId> tokens, const PagePlace& place,
             bool ends_prefix);
  /// The same for all pages of a node that is about to lose them.
  void offer(const RadixNode& node);

  /// The longest run of pages on disk from page `first` on, as the number of the page after it; `first` when
  /// there is none. With `window`, the run ends with window rows.
  [[nodiscard]] std::int64_t end_of_run(std::span<const PageKey> keys, std::int64_t first, bool window) const;

  /// Fills pages of the pools from disk, and the last one's window page, if it has one. False when a file
  /// proved bad; the run is shorter then.
  [[nodiscard]] bool load(std::span<const PageKey> keys, std::span<const TokenId> tokens,
                          std::span<const PagePlace> places);

  /// Prefixes without window rows on disk are worth loading: the last window will be computed again.
  [[nodiscard]] bool replays() const { return tier_.options().window_policy == WindowPolicy::kNone; }

 private:
  [[nodiscard]] bool load_page(const PageKey& key, std::span<const TokenId> page_tokens,
                               const PagePlace& place);

  KvCache& cache_;
  DiskTier& tier_;
  PageKey root_;
};

}  // namespace baleen
