#include "kv_cache/page_allocator.h"

#include "base/check.h"

namespace baleen {
namespace {

std::size_t index_of(PageId page) { return static_cast<std::size_t>(page); }

}  // namespace

PageAllocator::PageAllocator(std::int64_t num_pages) : in_use_(static_cast<std::size_t>(num_pages), false) {
  free_.reserve(static_cast<std::size_t>(num_pages));
  for (std::int64_t page = num_pages; page-- > 0;) free_.push_back(static_cast<PageId>(page));
}

std::optional<PageId> PageAllocator::allocate() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  in_use_[index_of(page)] = true;
  return page;
}

void PageAllocator::free(PageId page) {
  BALEEN_CHECK(page != PageId::kNone && index_of(page) < in_use_.size() && in_use_[index_of(page)]);
  in_use_[index_of(page)] = false;
  free_.push_back(page);
}

void PageAllocator::check_integrity() const {
  std::vector<bool> seen(in_use_.size(), false);
  for (const PageId page : free_) {
    BALEEN_CHECK(!in_use_[index_of(page)] && !seen[index_of(page)]);
    seen[index_of(page)] = true;
  }
  for (std::size_t page = 0; page < in_use_.size(); ++page) BALEEN_CHECK(in_use_[page] != seen[page]);
}

}  // namespace baleen
