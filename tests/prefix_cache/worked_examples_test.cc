// The worked examples of the cache specification: window of 4, pages of one token.
#include <gtest/gtest.h>

#include "small_cache.h"

namespace baleen {
namespace {

using test::Pages;
using test::SmallCache;
using test::token_range;
using test::Tokens;

// Chain root -> A = 0,1 -> B = 2,3 -> C = 4,5, all live. Least recently used first: A, B, C.
class ChainOfThree : public testing::Test {
 protected:
  ChainOfThree() {
    PrefixMatch path;
    for (const TokenId end : {2, 4, 6}) path = cache.extend(path, token_range(0, end)).path;
  }
  void TearDown() override {
    cache.tree.check_integrity();
    EXPECT_EQ(cache.tree.num_pages(), cache.pages_in_use());
    EXPECT_EQ(cache.tree.num_window_pages(), cache.window_pages_in_use());
  }
  void let_a_die() { EXPECT_EQ(cache.tree.evict(0, 1).window_pages, 2); }
  std::int64_t match(const Tokens& tokens) { return cache.tree.match(tokens).num_tokens; }

  SmallCache cache;
};

class MatchExample : public ChainOfThree {};

TEST_F(MatchExample, TheWholeChainEndsInAWindow) {
  let_a_die();
  const PrefixMatch match = cache.tree.match(token_range(0, 6));
  EXPECT_EQ(match.num_tokens, 6);
  EXPECT_EQ(tokens_to(*match.node), token_range(0, 6));
  EXPECT_EQ(match.pages, (Pages{PageId{0}, PageId{1}, PageId{2}, PageId{3}, PageId{4}, PageId{5}}));
  EXPECT_EQ(match.window_pages,
            (Pages{PageId::kNone, PageId::kNone, PageId{2}, PageId{3}, PageId{4}, PageId{5}}));
}

TEST_F(MatchExample, TokensBeyondTheTreeDoNotMatter) {
  let_a_die();
  EXPECT_EQ(match({0, 1, 2, 3, 4, 5, 9}), 6);
}

TEST_F(MatchExample, TwoLiveTokensAreLessThanAWindow) {
  let_a_die();
  EXPECT_EQ(match({0, 1, 2, 3}), 0);
  EXPECT_TRUE(cache.tree.match(token_range(0, 4)).node->is_root());
}

TEST_F(MatchExample, TheWalkSplitsTheLastNode) {
  let_a_die();
  EXPECT_EQ(match({0, 1, 2, 3, 4}), 0);
  EXPECT_EQ(cache.picture(),
            "0,1 pages 0,1 dead\n"
            "  2,3 pages 2,3 window 2,3\n"
            "    4 pages 4 window 4\n"
            "      5 pages 5 window 5\n");
  EXPECT_EQ(match(token_range(0, 6)), 6);
}

TEST_F(MatchExample, NothingEndsInADeadNode) {
  let_a_die();
  EXPECT_EQ(match({0, 1}), 0);
}

TEST_F(MatchExample, WithoutTombstonesAnyLengthIsSafe) {
  EXPECT_EQ(match({0, 1, 2, 3}), 4);
  EXPECT_EQ(match({0}), 1);
}

// Q = 0..3, dead, pages 0..3, with the live leaf X = 90..93 below. A sequence brings 0..7 with pages 8..15.
class InsertExample : public testing::Test {
 protected:
  InsertExample() {
    (void)cache.insert({0, 1, 2, 3, 90, 91, 92, 93});
    EXPECT_EQ(cache.tree.evict(0, 4).window_pages, 4);
    taken_window_ =
        test::allocate_pages(cache.window_pages, 4);  // so that the sequence has window pages 8..15
  }
  void TearDown() override {
    cache.tree.check_integrity();
    for (const PageId page : taken_window_) cache.window_pages.free(page);
    EXPECT_EQ(cache.tree.num_pages(), cache.pages_in_use());
    EXPECT_EQ(cache.tree.num_window_pages(), cache.window_pages_in_use());
  }
  PrefixInsertion insert(std::int64_t evicted) {
    Pages pages = test::allocate_pages(cache.pages, 8), window = test::allocate_pages(cache.window_pages, 8);
    for (std::int64_t i = 0; i < evicted; ++i) {
      cache.window_pages.free(std::exchange(window[static_cast<std::size_t>(i)], PageId::kNone));
    }
    return cache.tree.insert(token_range(0, 8), pages, window, 0, evicted);
  }

  SmallCache cache;

 private:
  Pages taken_window_;
};

TEST_F(InsertExample, AllOfATombstoneIsRevived) {
  const PrefixInsertion inserted = insert(0);
  EXPECT_EQ(inserted.existing_tokens, 4);
  EXPECT_EQ(inserted.path.num_tokens, 8);
  EXPECT_EQ(inserted.path.pages, inserted.path.window_pages);
  EXPECT_EQ(cache.picture(),
            "0,1,2,3 pages 8,9,10,11 window 8,9,10,11\n"
            "  4,5,6,7 pages 12,13,14,15 window 12,13,14,15\n"
            "  90,91,92,93 pages 4,5,6,7 window 4,5,6,7\n");
}

TEST_F(InsertExample, APartOfATombstoneIsRevived) {
  EXPECT_EQ(insert(2).existing_tokens, 4);
  EXPECT_EQ(cache.picture(),
            "0,1 pages 0,1 dead\n"
            "  2,3 pages 10,11 window 10,11\n"
            "    4,5,6,7 pages 12,13,14,15 window 12,13,14,15\n"
            "    90,91,92,93 pages 4,5,6,7 window 4,5,6,7\n");
}

TEST_F(InsertExample, NothingOfATombstoneIsRevived) {
  const PrefixInsertion inserted = insert(4);
  EXPECT_EQ(inserted.path.pages, (Pages{PageId{0}, PageId{1}, PageId{2}, PageId{3}, PageId{12}, PageId{13},
                                        PageId{14}, PageId{15}}));
  EXPECT_EQ(cache.picture(),
            "0,1,2,3 pages 0,1,2,3 dead\n"
            "  4,5,6,7 pages 12,13,14,15 window 12,13,14,15\n"
            "  90,91,92,93 pages 4,5,6,7 window 4,5,6,7\n");
}

TEST_F(InsertExample, TheRestIsSplitWhereItsWindowBegins) {
  (void)insert(6);
  EXPECT_EQ(cache.picture(),
            "0,1,2,3 pages 0,1,2,3 dead\n"
            "  4,5 pages 12,13 dead\n"
            "    6,7 pages 14,15 window 14,15\n"
            "  90,91,92,93 pages 4,5,6,7 window 4,5,6,7\n");
}

TEST_F(InsertExample, ARestWithoutWindowIsDropped) {
  const PrefixInsertion inserted = insert(8);
  EXPECT_EQ(inserted.existing_tokens, 4);
  EXPECT_EQ(inserted.path.num_tokens, 4);
  EXPECT_EQ(cache.picture(),
            "0,1,2,3 pages 0,1,2,3 dead\n"
            "  90,91,92,93 pages 4,5,6,7 window 4,5,6,7\n");
}

TEST_F(InsertExample, ALockedTombstoneKeepsItsPages) {
  const PrefixLock lock = cache.tree.lock(cache.match({0, 1, 2, 3, 90, 91, 92, 93}).node);
  const PrefixInsertion inserted = insert(0);
  EXPECT_EQ(inserted.path.pages, (Pages{PageId{0}, PageId{1}, PageId{2}, PageId{3}, PageId{12}, PageId{13},
                                        PageId{14}, PageId{15}}));
  EXPECT_EQ(cache.picture(),
            "0,1,2,3 pages 0,1,2,3 window 8,9,10,11\n"
            "  4,5,6,7 pages 12,13,14,15 window 12,13,14,15\n"
            "  90,91,92,93 pages 4,5,6,7 window 4,5,6,7\n");
  cache.tree.unlock(lock);
}

class EvictExample : public ChainOfThree {};

TEST_F(EvictExample, TwoWindowPagesLeaveOneTombstone) {
  const EvictedPages freed = cache.tree.evict(0, 2);
  EXPECT_EQ(freed.pages, 0);
  EXPECT_EQ(freed.window_pages, 2);
  EXPECT_EQ(cache.tree.num_pages(), 6);
  EXPECT_EQ(cache.picture(),
            "0,1 pages 0,1 dead\n"
            "  2,3 pages 2,3 window 2,3\n"
            "    4,5 pages 4,5 window 4,5\n");
}

TEST_F(EvictExample, FourWindowPagesLeaveTwoTombstones) {
  EXPECT_EQ(cache.tree.evict(0, 4).window_pages, 4);
  EXPECT_EQ(cache.picture(),
            "0,1 pages 0,1 dead\n"
            "  2,3 pages 2,3 dead\n"
            "    4,5 pages 4,5 window 4,5\n");
}

TEST_F(EvictExample, SixWindowPagesTakeTheLeafAndThenDeadLeaves) {
  const EvictedPages freed = cache.tree.evict(0, 6);
  EXPECT_EQ(freed.pages, 6);
  EXPECT_EQ(freed.window_pages, 6);
  EXPECT_EQ(cache.picture(), "");
  EXPECT_EQ(cache.pages.num_free(), 100);
}

TEST_F(EvictExample, AFullPageTakesTheLeaf) {
  const EvictedPages freed = cache.tree.evict(2, 0);
  EXPECT_EQ(freed.pages, 2);
  EXPECT_EQ(freed.window_pages, 2);
  EXPECT_EQ(cache.picture(),
            "0,1 pages 0,1 window 0,1\n"
            "  2,3 pages 2,3 window 2,3\n");
}

TEST_F(EvictExample, ADeadParentGoesWithItsLeaf) {
  // A is touched alone, so that of the inner nodes B is the one to die.
  (void)cache.match({0, 1});
  EXPECT_EQ(cache.tree.evict(0, 2).window_pages, 2);
  EXPECT_EQ(cache.tree.evict(2, 0).pages, 4);
  EXPECT_EQ(cache.picture(), "0,1 pages 0,1 window 0,1\n");
}

TEST_F(EvictExample, ALockOnTheLeafLeavesOnlyWhatLiesBeforeTheWindow) {
  const PrefixLock lock = cache.tree.lock(cache.tree.match(token_range(0, 6)).node);
  EXPECT_EQ(cache.tree.evictable_pages(), 0);
  EXPECT_EQ(cache.tree.evictable_window_pages(), 2);
  const EvictedPages freed = cache.tree.evict(6, 6);
  EXPECT_EQ(freed.pages, 0);
  EXPECT_EQ(freed.window_pages, 2);
  EXPECT_EQ(cache.picture(),
            "0,1 pages 0,1 dead\n"
            "  2,3 pages 2,3 window 2,3\n"
            "    4,5 pages 4,5 window 4,5\n");
  cache.tree.unlock(lock);
}

}  // namespace
}  // namespace baleen
