#include "kv_cache/sequence_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace baleen {

SequencePages::SequencePages(KvCache& cache)
    : cache_(&cache), state_slot_(cache.state_slots().allocate().value_or(PageId::kNone)) {}

SequencePages::SequencePages(SequencePages&& other) noexcept
    : cache_(other.cache_),
      state_slot_(std::exchange(other.state_slot_, PageId::kNone)),
      pages_(std::move(other.pages_)),
      window_pages_(std::move(other.window_pages_)),
      num_borrowed_(other.num_borrowed_),
      num_filled_(other.num_filled_),
      first_window_page_(other.first_window_page_) {
  other.pages_.clear();
  other.window_pages_.clear();
}

SequencePages& SequencePages::operator=(SequencePages&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(state_slot_, other.state_slot_);
  std::swap(pages_, other.pages_);
  std::swap(window_pages_, other.window_pages_);
  std::swap(num_borrowed_, other.num_borrowed_);
  std::swap(num_filled_, other.num_filled_);
  std::swap(first_window_page_, other.first_window_page_);
  return *this;
}

SequencePages::~SequencePages() { release(); }

void SequencePages::borrow(std::span<const PageId> pages, std::span<const PageId> window_pages) {
  BALEEN_CHECK(ok() && pages_.empty());
  BALEEN_CHECK_EQ(pages.size(), window_pages.size());
  const auto num_pages = static_cast<std::int64_t>(pages.size());
  hand_over(pages, window_pages, num_pages * kPageTokens);
}

void SequencePages::adopt(std::span<const PageId> pages, std::int64_t window_begin) {
  BALEEN_CHECK(ok() && static_cast<std::int64_t>(pages_.size()) == num_borrowed_);
  BALEEN_CHECK_EQ(window_begin % kPageTokens, 0);
  pages_.insert(pages_.end(), pages.begin(), pages.end());
  num_filled_ = static_cast<std::int64_t>(pages_.size());
  drop_window_pages(num_borrowed_);
  first_window_page_ = window_begin / kPageTokens;
  BALEEN_CHECK(num_borrowed_ <= first_window_page_ && first_window_page_ <= num_filled_);
  window_pages_.resize(static_cast<std::size_t>(first_window_page_), PageId::kNone);
}

void SequencePages::hand_over(std::span<const PageId> pages, std::span<const PageId> window_pages,
                              std::int64_t next) {
  const auto count = static_cast<std::int64_t>(pages.size());
  BALEEN_CHECK_LE(num_borrowed_, count);
  pages_.resize(std::max(pages_.size(), pages.size()), PageId::kNone);
  window_pages_.resize(std::max(window_pages_.size(), window_pages.size()), PageId::kNone);
  std::ranges::copy(pages, pages_.begin());
  const auto first = static_cast<std::size_t>(std::min(first_window_page_, count));
  std::ranges::copy(window_pages.subspan(first), window_pages_.begin() + static_cast<std::ptrdiff_t>(first));
  num_borrowed_ = count;
  leave_behind(next);
  for (std::int64_t i = first_window_page_; i < count; ++i) {
    BALEEN_CHECK(window_pages_[static_cast<std::size_t>(i)] != PageId::kNone);
  }
}

PageCounts SequencePages::missing(std::int64_t end, std::int64_t next) const {
  const auto beyond = [end](std::int64_t count) { return std::max<std::int64_t>(0, pages_for(end) - count); };
  return {beyond(std::ssize(pages_)),
          beyond(std::max(std::ssize(window_pages_), first_kept_window_page(next)))};
}

bool SequencePages::reach(std::int64_t end, std::int64_t next) {
  BALEEN_CHECK(ok());
  const PageCounts more = missing(end, next);
  if (cache_->pages().num_free() < more.pages || cache_->window_pages().num_free() < more.window_pages) {
    return false;
  }
  if (const std::int64_t first = first_kept_window_page(next); first > first_window_page_) {
    drop_window_pages(std::min<std::int64_t>(first, std::ssize(window_pages_)));
    first_window_page_ = first;
    window_pages_.resize(std::max(window_pages_.size(), static_cast<std::size_t>(first)), PageId::kNone);
  }
  for (std::int64_t i = 0; i < more.pages; ++i) pages_.push_back(*cache_->pages().allocate());
  for (std::int64_t i = 0; i < more.window_pages; ++i) {
    window_pages_.push_back(*cache_->window_pages().allocate());
  }
  return true;
}

void SequencePages::shrink(std::int64_t end) {
  const std::int64_t kept = pages_for(end);
  BALEEN_CHECK_LE(std::max(first_window_page_, num_borrowed_), kept);
  for (; static_cast<std::int64_t>(pages_.size()) > std::max(kept, num_filled_); pages_.pop_back()) {
    cache_->pages().free(pages_.back());
  }
  for (; static_cast<std::int64_t>(window_pages_.size()) > kept; window_pages_.pop_back()) {
    cache_->window_pages().free(window_pages_.back());
  }
}

std::int64_t SequencePages::first_kept_window_page(std::int64_t next) const {
  const CacheGeometry& geometry = cache_->geometry();
  const auto page_of = [](std::int64_t position) {
    return std::max<std::int64_t>(0, position) / kPageTokens;
  };
  // What is borrowed was there before the sequence: a step that is taken back does not reach below it.
  const std::int64_t seen_next = std::max(num_borrowed_ * kPageTokens, next - geometry.max_draft_tokens);
  const std::int64_t first_seen = page_of(seen_next - geometry.window_tokens);
  return std::max(std::min(first_seen, num_borrowed_), page_of(next - geometry.kept_tokens()));
}

void SequencePages::leave_behind(std::int64_t next) {
  const std::int64_t first_kept = first_kept_window_page(next);
  BALEEN_CHECK_LE(first_kept, std::ssize(window_pages_));
  drop_window_pages(first_kept);
}

void SequencePages::leave_tail(std::int64_t num_pages) {
  drop_window_pages(num_pages - pages_for(cache_->geometry().window_tokens));
}

void SequencePages::drop_window_pages(std::int64_t first_kept) {
  for (; first_window_page_ < first_kept; ++first_window_page_) {
    PageId& page = window_pages_[static_cast<std::size_t>(first_window_page_)];
    if (first_window_page_ >= num_borrowed_) cache_->window_pages().free(page);
    page = PageId::kNone;
  }
}

PageCounts SequencePages::owned() const {
  const std::int64_t first_own_window = std::max(first_window_page_, num_borrowed_);
  return {static_cast<std::int64_t>(pages_.size()) - num_borrowed_,
          std::max<std::int64_t>(0, static_cast<std::int64_t>(window_pages_.size()) - first_own_window)};
}

void SequencePages::release() {
  if (!ok()) return;
  for (std::size_t i = static_cast<std::size_t>(num_borrowed_); i < pages_.size(); ++i) {
    cache_->pages().free(pages_[i]);
  }
  for (std::size_t i = static_cast<std::size_t>(num_borrowed_); i < window_pages_.size(); ++i) {
    if (window_pages_[i] != PageId::kNone) cache_->window_pages().free(window_pages_[i]);
  }
  cache_->state_slots().free(state_slot_);
}

}  // namespace baleen
