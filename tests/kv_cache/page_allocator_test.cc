// Random allocations against a set of numbers.
#include "kv_cache/page_allocator.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <iterator>
#include <set>

namespace baleen {
namespace {

TEST(PageAllocator, StartsWithTheLowestPages) {
  PageAllocator pages(3);
  for (int page = 0; page < 3; ++page) EXPECT_EQ(pages.allocate(), static_cast<PageId>(page));
  EXPECT_EQ(pages.allocate(), std::nullopt);
  pages.free(PageId{1});
  pages.free(PageId{0});
  EXPECT_EQ(pages.allocate(), PageId{0});  // the last freed one is warm
  EXPECT_EQ(pages.allocate(), PageId{1});
}

TEST(PageAllocator, AnEmptyPoolHasNone) {
  PageAllocator pages(0);
  EXPECT_EQ(pages.allocate(), std::nullopt);
  pages.check_integrity();
}

TEST(PageAllocator, BehavesLikeASetOfNumbers) {
  EXPECT_TRUE(rc::check([] {
    const auto num_pages = *rc::gen::inRange<std::int64_t>(1, 20);
    PageAllocator pages(num_pages);
    std::set<PageId> held;
    for (const bool take : *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>())) {
      if (take) {
        const std::optional<PageId> page = pages.allocate();
        RC_ASSERT(page.has_value() == (static_cast<std::int64_t>(held.size()) < num_pages));
        if (page) {
          RC_ASSERT(*page > PageId::kNone && *page < static_cast<PageId>(num_pages));
          RC_ASSERT(held.insert(*page).second);
        }
      } else if (!held.empty()) {
        const auto which = *rc::gen::inRange<std::size_t>(0, held.size());
        const auto page = std::next(held.begin(), static_cast<std::ptrdiff_t>(which));
        pages.free(*page);
        held.erase(page);
      }
      RC_ASSERT(pages.num_free() == num_pages - static_cast<std::int64_t>(held.size()));
      pages.check_integrity();
    }
  }));
}

using PageAllocatorDeathTest = testing::Test;

TEST(PageAllocatorDeathTest, FreeingTwiceStopsTheProgram) {
  PageAllocator pages(2);
  const PageId page = *pages.allocate();
  pages.free(page);
  EXPECT_DEATH(pages.free(page), "in_use_");
  EXPECT_DEATH(pages.free(PageId::kNone), "kNone");
  EXPECT_DEATH(pages.free(PageId{2}), "size");
}

}  // namespace
}  // namespace baleen
