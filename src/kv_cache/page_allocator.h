/// Hands out the pages of one pool. Lowest free number first after a fresh start, last freed first
/// afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Invariant: every page is either free or in use, never twice in the free list. Not thread-safe.
class PageAllocator {
 public:
  explicit PageAllocator(std::int64_t num_pages);

  /// Empty when all pages are in use.
  [[nodiscard]] std::optional<PageId> allocate();
  /// `page` must be in use.
  void free(PageId page);

  [[nodiscard]] std::int64_t num_pages() const { return static_cast<std::int64_t>(in_use_.size()); }
  [[nodiscard]] std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  /// Stops the program when the invariant is broken. O(pages).
  void check_integrity() const;

 private:
  std::vector<PageId> free_;
  std::vector<bool> in_use_;
};

}  // namespace baleen
