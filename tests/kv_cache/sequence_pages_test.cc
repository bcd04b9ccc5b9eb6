// Page tables of sequences against a naive twin: for every position the page it stands in, recomputed from
// scratch.
#include "kv_cache/sequence_pages.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>
#include <set>
#include <vector>

namespace baleen {
namespace {

CacheGeometry one_block() {
  return {.blocks = {{.ratio = 4, .overlaps = true, .has_index_keys = true}},
          .latent = {64, 64, Precision::kReleased},
          .index_key = {128, Precision::kReleased}};
}

std::int64_t live_pages(std::span<const PageId> pages) {
  return static_cast<std::int64_t>(pages.size()) - std::ranges::count(pages, PageId::kNone);
}

TEST(SequencePages, TakesPagesAsPositionsComeAndFreesWindowPagesBehind) {
  KvCache cache(one_block(), {.num_pages = 10, .num_window_pages = 3, .num_state_slots = 1});
  SequencePages pages(cache);
  ASSERT_TRUE(pages.ok());
  ASSERT_TRUE(pages.reach(1));
  EXPECT_EQ(pages.pages().size(), 1u);
  ASSERT_TRUE(pages.reach(257));
  EXPECT_EQ(pages.pages().size(), 2u);
  ASSERT_TRUE(pages.reach(384));
  pages.leave_behind(383);  // position 382, whose MTP row may be due, sees 255
  EXPECT_EQ(live_pages(pages.window_pages()), 2);
  pages.leave_behind(384);  // 383 sees 256 and later
  EXPECT_EQ(live_pages(pages.window_pages()), 1);
  EXPECT_EQ(pages.window_pages()[0], PageId::kNone);
  EXPECT_EQ(live_pages(pages.pages()), 2);
}

TEST(SequencePages, TakesNothingWhenThereIsTooLittle) {
  KvCache cache(one_block(), {.num_pages = 2, .num_window_pages = 2, .num_state_slots = 2});
  SequencePages first(cache), second(cache);
  ASSERT_TRUE(first.reach(200));
  EXPECT_FALSE(second.reach(300));
  EXPECT_TRUE(second.pages().empty());
  EXPECT_EQ(cache.pages().num_free(), 1);
  EXPECT_TRUE(second.reach(256));
  EXPECT_FALSE(first.reach(257));
  EXPECT_EQ(first.pages().size(), 1u);
}

TEST(SequencePages, ShrinksToTheLastPositionsPage) {
  KvCache cache(one_block(), {.num_pages = 4, .num_window_pages = 4, .num_state_slots = 1});
  SequencePages pages(cache);
  ASSERT_TRUE(pages.reach(900));
  pages.leave_behind(500);
  pages.shrink(513);
  EXPECT_EQ(pages.pages().size(), 3u);
  pages.shrink(512);
  EXPECT_EQ(pages.pages().size(), 2u);
  EXPECT_EQ(cache.pages().num_free(), 2);
  EXPECT_EQ(cache.window_pages().num_free(), 3);
  EXPECT_TRUE(pages.reach(1024));
}

TEST(SequencePages, NeedsAStateSlot) {
  KvCache cache(one_block(), {.num_pages = 2, .num_window_pages = 2, .num_state_slots = 1});
  {
    const SequencePages first(cache), second(cache);
    EXPECT_TRUE(first.ok());
    EXPECT_FALSE(second.ok());
  }
  EXPECT_EQ(cache.state_slots().num_free(), 1);
}

TEST(SequencePages, MovingMovesThePages) {
  KvCache cache(one_block(), {.num_pages = 4, .num_window_pages = 4, .num_state_slots = 2});
  SequencePages first(cache);
  ASSERT_TRUE(first.reach(300));
  {
    const SequencePages moved(std::move(first));
    EXPECT_EQ(moved.pages().size(), 2u);
    EXPECT_EQ(cache.pages().num_free(), 2);
  }
  EXPECT_EQ(cache.pages().num_free(), 4);
  EXPECT_EQ(cache.window_pages().num_free(), 4);
  EXPECT_EQ(cache.state_slots().num_free(), 2);
  SequencePages second(cache), third(cache);
  ASSERT_TRUE(second.reach(256));
  third = std::move(second);
  EXPECT_EQ(third.pages().size(), 1u);
}

CacheGeometry shared_geometry() {
  CacheGeometry geometry = one_block();
  geometry.shares_prefixes = true;
  geometry.max_draft_tokens = 2;
  return geometry;
}

/// Takes pages as the prefix cache would.
std::vector<PageId> take(PageAllocator& pool, std::size_t count) {
  std::vector<PageId> pages;
  for (std::size_t i = 0; i < count; ++i) pages.push_back(*pool.allocate());
  return pages;
}

TEST(SequencePages, WhatIsBorrowedIsNotGivenBack) {
  KvCache cache(shared_geometry(), {.num_pages = 6, .num_window_pages = 6, .num_state_slots = 1});
  const std::vector<PageId> pages = take(cache.pages(), 3);
  std::vector<PageId> window_pages = take(cache.window_pages(), 2);
  window_pages.insert(window_pages.begin(), PageId::kNone);  // evicted
  {
    SequencePages sequence(cache);
    sequence.borrow(pages, window_pages);
    EXPECT_EQ(sequence.num_borrowed(), 3);
    EXPECT_EQ(live_pages(sequence.window_pages()), 1);  // position 768 sees 641 and later
    EXPECT_EQ(sequence.window_pages()[2], window_pages[2]);
    ASSERT_TRUE(sequence.reach(900));
    EXPECT_EQ(sequence.owned().pages, 1);
    EXPECT_EQ(sequence.owned().window_pages, 1);
    sequence.leave_behind(897);
    EXPECT_TRUE(sequence.sees_borrowed());  // 897 - 2 sees 767, if the last two are taken back
    sequence.leave_behind(898);
    EXPECT_FALSE(sequence.sees_borrowed());
  }
  EXPECT_EQ(cache.pages().num_free(), 3);
  EXPECT_EQ(cache.window_pages().num_free(), 4);
}

TEST(SequencePages, WhatComesFromElsewhereTakesNoWindowPagesThatWouldBeBehind) {
  KvCache cache(shared_geometry(), {.num_pages = 12, .num_window_pages = 3, .num_state_slots = 1});
  {
    SequencePages arriving(cache);
    EXPECT_FALSE(arriving.reach(2048)) << "8 window pages";
    ASSERT_TRUE(arriving.reach(2048, 2048));
    EXPECT_EQ(arriving.owned().pages, 8);
    SequencePages own(std::move(arriving));
    // As if it had computed them.
    EXPECT_EQ(own.first_window_page(), 6);
    own.leave_behind(2048);
    EXPECT_EQ(own.first_window_page(), 6);
    EXPECT_EQ(live_pages(own.window_pages()), 2);
    // More of it: those that fall behind go back first.
    EXPECT_EQ(own.missing(2600, 2600).pages, 3);
    EXPECT_FALSE(own.reach(4096, 4096)) << "16 pages";
    EXPECT_EQ(own.owned().pages, 8);
    ASSERT_TRUE(own.reach(2300, 2300));
    EXPECT_EQ(own.owned().pages, 9);
    EXPECT_EQ(own.first_window_page(), (2300 - cache.geometry().kept_tokens()) / kPageTokens);
    ASSERT_TRUE(own.reach(2301));
  }
  EXPECT_EQ(cache.pages().num_free(), 12);
  EXPECT_EQ(cache.window_pages().num_free(), 3);
}

TEST(SequencePages, TheLastWholePageKeepsItsWindowRowsUntilItIsHandedOver) {
  KvCache cache(shared_geometry(), {.num_pages = 6, .num_window_pages = 6, .num_state_slots = 1});
  SequencePages sequence(cache);
  ASSERT_TRUE(sequence.reach(1000));
  sequence.leave_behind(1000);
  EXPECT_EQ(sequence.first_window_page(), 2);  // far out of sight, but the page before 768
  sequence.leave_tail(3);
  EXPECT_EQ(sequence.first_window_page(), 2);
  // The cache has other pages of the first two, and takes the third.
  std::vector<PageId> pages = take(cache.pages(), 2);
  pages.push_back(sequence.pages()[2]);
  const std::vector<PageId> before(sequence.pages().begin(), sequence.pages().end());
  cache.pages().free(before[0]);
  cache.pages().free(before[1]);
  sequence.hand_over(pages, std::vector<PageId>{PageId::kNone, PageId::kNone, sequence.window_pages()[2]},
                     1000);
  EXPECT_EQ(sequence.pages()[0], pages[0]);
  EXPECT_EQ(sequence.pages()[3], before[3]);
  EXPECT_FALSE(sequence.sees_borrowed());
  EXPECT_EQ(sequence.owned().pages, 1);
  EXPECT_EQ(sequence.owned().window_pages, 1);
}

TEST(SequencePages, FullPagesWithoutWindowRowsGetThemAsPositionsAreComputedAgain) {
  KvCache cache(shared_geometry(), {.num_pages = 6, .num_window_pages = 3, .num_state_slots = 1});
  {
    SequencePages sequence(cache);
    sequence.adopt(take(cache.pages(), 4), 512);
    EXPECT_EQ(sequence.window_pages().size(), 2u);
    EXPECT_EQ(sequence.missing(700).pages, 0);
    EXPECT_EQ(sequence.missing(700).window_pages, 1);
    ASSERT_TRUE(sequence.reach(700));
    EXPECT_FALSE(sequence.reach(1300));  // two pages, three window pages
    sequence.shrink(600);                // the full pages stay
    EXPECT_EQ(sequence.pages().size(), 4u);
    ASSERT_TRUE(sequence.reach(1200));
    EXPECT_EQ(sequence.owned().pages, 5);
    EXPECT_EQ(sequence.owned().window_pages, 3);
  }
  EXPECT_EQ(cache.pages().num_free(), 6);
  EXPECT_EQ(cache.window_pages().num_free(), 3);
}

/// One sequence under test, and how far it is.
struct Twin {
  SequencePages pages;
  std::int64_t length = 0;
  std::int64_t num_pages = 0;
  std::int64_t first_window_page = 0;
};

/// Everything that must hold of all sequences together, from their lengths alone.
void check(KvCache& cache, const std::vector<Twin>& twins) {
  std::set<PageId> pages, window_pages;
  std::int64_t num_pages = 0, num_window_pages = 0;
  for (const Twin& twin : twins) {
    RC_ASSERT(static_cast<std::int64_t>(twin.pages.pages().size()) == twin.num_pages);
    RC_ASSERT(static_cast<std::int64_t>(twin.pages.window_pages().size()) == twin.num_pages);
    for (std::int64_t p = 0; p < twin.num_pages; ++p) {
      const PageId window = twin.pages.window_pages()[static_cast<std::size_t>(p)];
      RC_ASSERT((window != PageId::kNone) == (p >= twin.first_window_page));
      if (window != PageId::kNone) window_pages.insert(window);
      pages.insert(twin.pages.pages()[static_cast<std::size_t>(p)]);
    }
    num_pages += twin.num_pages;
    num_window_pages += twin.num_pages - std::min(twin.first_window_page, twin.num_pages);
  }
  // No page has two owners, and what has no owner is free.
  RC_ASSERT(static_cast<std::int64_t>(pages.size()) == num_pages);
  RC_ASSERT(static_cast<std::int64_t>(window_pages.size()) == num_window_pages);
  RC_ASSERT(cache.pages().num_free() == cache.capacity().num_pages - num_pages);
  RC_ASSERT(cache.window_pages().num_free() == cache.capacity().num_window_pages - num_window_pages);
  RC_ASSERT(cache.state_slots().num_free() ==
            cache.capacity().num_state_slots - static_cast<std::int64_t>(twins.size()));
  cache.pages().check_integrity();
  cache.window_pages().check_integrity();
  cache.state_slots().check_integrity();
}

TEST(SequencePages, RandomStepsAgreeWithANaiveTwin) {
  EXPECT_TRUE(rc::check([] {
    KvCache cache(one_block(), {.num_pages = *rc::gen::inRange<std::int64_t>(1, 16),
                                .num_window_pages = *rc::gen::inRange<std::int64_t>(1, 10),
                                .num_state_slots = 3});
    std::vector<Twin> twins;
    for (const int action : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 12))) {
      if (action == 0) {
        SequencePages pages(cache);
        RC_ASSERT(pages.ok() == (twins.size() < 3));
        if (pages.ok()) twins.push_back({std::move(pages)});
      } else if (!twins.empty()) {
        const auto which = *rc::gen::inRange<std::size_t>(0, twins.size());
        if (action == 1) {
          std::swap(twins[which], twins.back());
          twins.pop_back();
        } else {
          Twin& twin = twins[which];
          const std::int64_t end =
              twin.length + *rc::gen::element<std::int64_t>(1, 7, 100, 255, 256, 257, 700);
          const std::int64_t missing = pages_for(end) - twin.num_pages;
          std::int64_t free_window_pages = cache.capacity().num_window_pages;
          for (const Twin& other : twins) free_window_pages -= other.num_pages - other.first_window_page;
          const bool fits = missing <= cache.pages().num_free() && missing <= free_window_pages;
          RC_ASSERT(twin.pages.reach(end) == fits);
          if (fits && action == 2) {
            twin.pages.shrink(twin.length);
            twin.num_pages = pages_for(twin.length);
          } else if (fits) {
            twin.length = end;
            twin.num_pages = pages_for(end);
            twin.pages.leave_behind(end);
            twin.first_window_page = std::max<std::int64_t>(0, end - 128) / kPageTokens;
          }
        }
      }
      check(cache, twins);
    }
  }));
}

}  // namespace
}  // namespace baleen
