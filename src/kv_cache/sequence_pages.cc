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
      first_window_page_(other.first_window_page_) {
  other.pages_.clear();
  other.window_pages_.clear();
}

SequencePages& SequencePages::operator=(SequencePages&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(state_slot_, other.state_slot_);
  std::swap(pages_, other.pages_);
  std::swap(window_pages_, other.window_pages_);
  std::swap(first_window_page_, other.first_window_page_);
  return *this;
}

SequencePages::~SequencePages() { release(); }

bool SequencePages::reach(std::int64_t end) {
  BALEEN_CHECK(ok());
  const std::int64_t missing = pages_for(end) - static_cast<std::int64_t>(pages_.size());
  if (missing <= 0) return true;
  if (cache_->pages().num_free() < missing || cache_->window_pages().num_free() < missing) return false;
  for (std::int64_t i = 0; i < missing; ++i) {
    pages_.push_back(*cache_->pages().allocate());
    window_pages_.push_back(*cache_->window_pages().allocate());
  }
  return true;
}

void SequencePages::shrink(std::int64_t end) {
  const auto kept = static_cast<std::size_t>(pages_for(end));
  BALEEN_CHECK_LE(first_window_page_, static_cast<std::int64_t>(kept));
  for (; pages_.size() > kept; pages_.pop_back(), window_pages_.pop_back()) {
    cache_->pages().free(pages_.back());
    cache_->window_pages().free(window_pages_.back());
  }
}

void SequencePages::leave_behind(std::int64_t next) {
  const std::int64_t first_visible = std::max<std::int64_t>(0, next - cache_->geometry().window_tokens);
  BALEEN_CHECK_LE(first_visible / kPageTokens, static_cast<std::int64_t>(window_pages_.size()));
  for (; first_window_page_ < first_visible / kPageTokens; ++first_window_page_) {
    PageId& page = window_pages_[static_cast<std::size_t>(first_window_page_)];
    cache_->window_pages().free(std::exchange(page, PageId::kNone));
  }
}

void SequencePages::release() {
  if (!ok()) return;
  for (const PageId page : pages_) cache_->pages().free(page);
  for (const PageId page : window_pages_) {
    if (page != PageId::kNone) cache_->window_pages().free(page);
  }
  cache_->state_slots().free(state_slot_);
}

}  // namespace baleen
