/// The pages of one sequence.
///
///     positions   0 ......... 255 | 256 ....... 511 | 512 ....... 767 | 768 ..
///     pages       P0              | P1              | P2              |    until the sequence ends
///     window      none (freed)    | none (freed)    | W2              |    the last 128 and the step's own
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/kv_cache.h"

namespace baleen {

/// Holds pages of `cache` until it is destroyed; `cache` must outlive it. Movable.
class SequencePages {
 public:
  /// Takes a state slot. `ok()` is false when there was none.
  explicit SequencePages(KvCache& cache);
  SequencePages(SequencePages&& other) noexcept;
  SequencePages& operator=(SequencePages&& other) noexcept;
  ~SequencePages();

  [[nodiscard]] bool ok() const { return state_slot_ != PageId::kNone; }

  /// Makes positions up to `end` writable. False when a pool has too few pages left; nothing is taken then.
  [[nodiscard]] bool reach(std::int64_t end);
  /// Gives back the pages that hold only positions from `end` on.
  void shrink(std::int64_t end);
  /// Gives back the window pages that no position from `next - 1` on can see.
  void leave_behind(std::int64_t next);

  [[nodiscard]] std::span<const PageId> pages() const { return pages_; }
  [[nodiscard]] std::span<const PageId> window_pages() const { return window_pages_; }
  [[nodiscard]] std::int32_t state_slot() const { return static_cast<std::int32_t>(state_slot_); }

 private:
  void release();

  KvCache* cache_;
  PageId state_slot_ = PageId::kNone;
  std::vector<PageId> pages_;
  std::vector<PageId> window_pages_;
  std::int64_t first_window_page_ = 0;  ///< lower ones are freed
};

}  // namespace baleen
