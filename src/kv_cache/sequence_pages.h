/// The pages of one sequence.
///
///     positions   0 ......... 255 | 256 ....... 511 | 512 ....... 767 | 768 ..
///     pages       P0              | P1              | P2              |    until the sequence ends
///     window      none (freed)    | none (freed)    | W2              |    the last 128 and the step's own
///                 └ may be borrowed from the prefix cache ┘
///
/// A beginning of both tables may be **borrowed**: the prefix cache owns those pages and others read them
/// too. They are full, so they are not written again (but for a draft head's row of the last position, whose
/// token is known only later).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/kv_cache.h"

namespace baleen {

/// Pages of each pool.
struct PageCounts {
  std::int64_t pages = 0;
  std::int64_t window_pages = 0;
};

/// Holds pages of `cache` until it is destroyed; `cache` must outlive it. Movable.
class SequencePages {
 public:
  /// Takes a state slot. `ok()` is false when there was none.
  explicit SequencePages(KvCache& cache);
  SequencePages(SequencePages&& other) noexcept;
  SequencePages& operator=(SequencePages&& other) noexcept;
  ~SequencePages();

  [[nodiscard]] bool ok() const { return state_slot_ != PageId::kNone; }

  /// Begins a sequence, which has no pages yet, with pages of the prefix cache. Of the window pages only
  /// those that the next position can see are looked at.
  void borrow(std::span<const PageId> pages, std::span<const PageId> window_pages);
  /// Goes on with pages of its own that are full, but without window rows: those will exist from position
  /// `window_begin` (a page's first) on.
  void adopt(std::span<const PageId> pages, std::int64_t window_begin);
  /// From now on the first pages are the prefix cache's: these. At least as many as before. `next` is the
  /// sequence's next position.
  void hand_over(std::span<const PageId> pages, std::span<const PageId> window_pages, std::int64_t next);

  /// What `reach` would take.
  [[nodiscard]] PageCounts missing(std::int64_t end, std::int64_t next = 0) const;
  /// Makes positions up to `end` writable. False when a pool has too few pages left; nothing is taken then.
  /// Where positions before `next` come from another cache, they are taken as behind: window pages that
  /// `leave_behind(next)` would give back are not taken.
  [[nodiscard]] bool reach(std::int64_t end, std::int64_t next = 0);
  /// Gives back the pages that hold only positions from `end` on.
  void shrink(std::int64_t end);
  /// Gives back the window pages that `next` and later positions have no use for: beyond
  /// geometry().kept_tokens(), or, of borrowed ones, out of sight.
  void leave_behind(std::int64_t next);
  /// Gives back the window pages before page `first_kept`, which no later step needs.
  void leave_windows_before(std::int64_t first_kept) { drop_window_pages(first_kept); }
  /// Gives back the window pages that no step needs which goes on after the first `num_pages` pages.
  void leave_tail(std::int64_t num_pages);

  [[nodiscard]] std::span<const PageId> pages() const { return pages_; }
  [[nodiscard]] std::span<const PageId> window_pages() const { return window_pages_; }
  [[nodiscard]] std::int32_t state_slot() const { return static_cast<std::int32_t>(state_slot_); }
  [[nodiscard]] std::int64_t num_borrowed() const { return num_borrowed_; }
  /// Lower window pages are given back.
  [[nodiscard]] std::int64_t first_window_page() const { return first_window_page_; }
  /// Whether window pages of the prefix cache are still in sight.
  [[nodiscard]] bool sees_borrowed() const { return first_window_page_ < num_borrowed_; }
  /// Pages that are this sequence's own.
  [[nodiscard]] PageCounts owned() const;

 private:
  void release();
  /// The first window page that a sequence keeps whose next position is `next`.
  [[nodiscard]] std::int64_t first_kept_window_page(std::int64_t next) const;
  void drop_window_pages(std::int64_t first_kept);

  KvCache* cache_;
  PageId state_slot_ = PageId::kNone;
  std::vector<PageId> pages_;
  std::vector<PageId> window_pages_;
  std::int64_t num_borrowed_ = 0;
  std::int64_t num_filled_ = 0;  ///< pages that are full whatever the length is
  std::int64_t first_window_page_ = 0;
};

}  // namespace baleen
