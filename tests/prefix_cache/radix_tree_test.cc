// The reserve of tails, locks that end early, what an eviction's observer sees, and the picture of the tree.
#include <gtest/gtest.h>

#include "small_cache.h"

namespace baleen {
namespace {

using test::SmallCache;
using test::token_range;
using test::Tokens;

/// Eight tokens that no other sequence has: a body of four and a tail of four.
Tokens session(TokenId name) { return token_range(100 * name, 100 * name + 8); }

TEST(ReservedTails, WithoutAReserveTheLeastRecentlyUsedGoes) {
  SmallCache cache(0);
  for (const TokenId name : {1, 2, 3}) (void)cache.insert(session(name));
  EXPECT_EQ(cache.tree.evict(0, 8).pages, 8);  // body and tail of the first, so all of it
  EXPECT_EQ(cache.match(session(1)).num_tokens, 0);
  EXPECT_EQ(cache.match(session(2)).num_tokens, 8);
  EXPECT_EQ(cache.match(session(3)).num_tokens, 8);
}

TEST(ReservedTails, BodiesGoFirst) {
  SmallCache cache(3);
  for (const TokenId name : {1, 2, 3}) (void)cache.insert(session(name));
  const EvictedPages freed = cache.tree.evict(0, 12);
  EXPECT_EQ(freed.window_pages, 12);
  EXPECT_EQ(freed.pages, 0);
  for (const TokenId name : {1, 2, 3}) EXPECT_EQ(cache.match(session(name)).num_tokens, 8);
}

TEST(ReservedTails, OnlyTheMostRecentTailsAreReserved) {
  SmallCache cache(1);
  for (const TokenId name : {1, 2, 3}) (void)cache.insert(session(name));
  EXPECT_EQ(cache.tree.evict(0, 20).window_pages, 20);
  EXPECT_EQ(cache.match(session(1)).num_tokens, 0);
  EXPECT_EQ(cache.match(session(2)).num_tokens, 0);
  EXPECT_EQ(cache.match(session(3)).num_tokens, 8);
}

TEST(ReservedTails, TheReserveYieldsWhenNothingElseIsLeft) {
  SmallCache cache(3);
  for (const TokenId name : {1, 2}) (void)cache.insert(session(name));
  EXPECT_EQ(cache.tree.evict(0, 12).window_pages, 12);
  EXPECT_EQ(cache.match(session(1)).num_tokens, 0);
  EXPECT_EQ(cache.match(session(2)).num_tokens, 8);
}

TEST(ReservedTails, TailsOfRunningSequencesDoNotCount) {
  SmallCache cache(1);
  for (const TokenId name : {1, 2}) (void)cache.insert(session(name));
  const PrefixLock lock = cache.tree.lock(cache.match(session(2)).node);
  EXPECT_EQ(cache.tree.evict(0, 8).window_pages, 8);
  EXPECT_EQ(cache.match(session(1)).num_tokens, 8);
  cache.tree.unlock(lock);
}

TEST(ReservedTails, AnEndThatOneContinuationWentPastIsNone) {
  SmallCache cache(8);
  Tokens turns = token_range(0, 8);
  (void)cache.insert(turns);
  (void)cache.insert(token_range(0, 16));
  EXPECT_EQ(cache.tree.evict(0, 8).window_pages, 8);
  turns.push_back(99);  // another answer to the first turn
  EXPECT_EQ(cache.match(turns).num_tokens, 0);
  EXPECT_EQ(cache.match(token_range(0, 16)).num_tokens, 16);
}

TEST(ReservedTails, AnEndThatWentOnInTwoWaysIsOne) {
  SmallCache cache(8);
  Tokens turns = token_range(0, 8), branch = turns;
  (void)cache.insert(turns);
  (void)cache.insert(token_range(0, 16));
  for (TokenId token = 100; token < 108; ++token) branch.push_back(token);
  (void)cache.insert(branch);
  EXPECT_EQ(cache.tree.evict(0, 12).window_pages, 12);  // three bodies
  turns.push_back(99);
  EXPECT_EQ(cache.match(turns).num_tokens, 8);
  EXPECT_EQ(cache.match(token_range(0, 16)).num_tokens, 16);
  EXPECT_EQ(cache.match(branch).num_tokens, 16);
}

TEST(Locks, ReleasingTheWindowOfALeafFreesItAtOnce) {
  SmallCache cache;
  (void)cache.insert(session(1));
  PrefixLock lock = cache.tree.lock(cache.match(session(1)).node);
  EXPECT_EQ(cache.tree.evictable_window_pages(), 4);
  cache.tree.release_window(lock);
  EXPECT_EQ(cache.tree.num_window_pages(), 4);
  cache.tree.check_integrity();
  (void)cache.tree.evict(8, 8);
  EXPECT_EQ(cache.tree.num_pages(), 8);  // still read
  EXPECT_EQ(cache.match(session(1)).num_tokens, 0);
  cache.tree.unlock(lock);  // nothing can end in a dead leaf, and no request reads it
  EXPECT_EQ(cache.pages_in_use(), 0);
}

TEST(Locks, AnotherLockKeepsTheWindow) {
  SmallCache cache;
  (void)cache.insert(session(1));
  PrefixLock first = cache.tree.lock(cache.match(session(1)).node);
  const PrefixLock second = cache.tree.lock(cache.match(session(1)).node);
  EXPECT_EQ(first.window_end, second.window_end);
  cache.tree.release_window(first);
  cache.tree.unlock(first);
  EXPECT_EQ(cache.tree.evict(8, 8).window_pages, 4);
  EXPECT_EQ(cache.match(session(1)).num_tokens, 8);
  cache.tree.unlock(second);
}

TEST(Locks, ASplitLockIsGivenBackWhole) {
  SmallCache cache;
  (void)cache.insert(session(1));
  const PrefixLock lock = cache.tree.lock(cache.match(session(1)).node);
  Tokens fork = session(1);
  fork.resize(6);
  (void)cache.match(fork);  // splits the tail, where the window's share of the lock ends
  cache.tree.check_integrity();
  cache.tree.unlock(lock);
  EXPECT_EQ(cache.tree.evictable_pages(), 8);
  EXPECT_EQ(cache.tree.evictable_window_pages(), 8);
}

TEST(Locks, TheRootIsLockedInVain) {
  SmallCache cache;
  PrefixLock lock = cache.tree.lock(cache.match({1, 2}).node);
  cache.tree.release_window(lock);
  cache.tree.unlock(lock);
  cache.tree.check_integrity();
}

TEST(Observer, SeesPagesBeforeTheyAreFreed) {
  SmallCache cache;
  (void)cache.insert(session(1));
  std::vector<std::string> seen;
  cache.tree.observe_evictions([&](const RadixNode& node, bool window_only) {
    EXPECT_EQ(cache.pages_in_use(), 8);
    EXPECT_FALSE(node.tombstone());
    seen.push_back(fmt::format("{} tokens, {}", tokens_to(node).size(), window_only ? "window" : "all"));
  });
  (void)cache.tree.evict(0, 4);
  EXPECT_EQ(seen, (std::vector<std::string>{"4 tokens, window"}));
  cache.tree.observe_evictions([&](const RadixNode& node, bool window_only) {
    seen.push_back(fmt::format("{} tokens, {}", tokens_to(node).size(), window_only ? "window" : "all"));
  });
  (void)cache.tree.evict(4, 0);
  EXPECT_EQ(seen, (std::vector<std::string>{"4 tokens, window", "8 tokens, all", "4 tokens, all"}));
}

TEST(Summary, ListsParentsFirst) {
  SmallCache cache;
  (void)cache.insert(session(1));
  (void)cache.insert(session(2));
  (void)cache.tree.evict(0, 4);
  const std::vector<RadixNodeSummary> nodes = cache.tree.summary(100);
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].parent, -1);
  EXPECT_EQ(nodes[1].parent, -1);
  EXPECT_EQ(nodes[2].parent, nodes[0].id);
  EXPECT_EQ(nodes[3].parent, nodes[1].id);
  EXPECT_TRUE(nodes[0].tombstone);
  EXPECT_FALSE(nodes[2].tombstone);
  EXPECT_EQ(nodes[2].num_tokens, 4);
  EXPECT_EQ(cache.tree.summary(3).size(), 3U);
}

TEST(RadixTreeDeathTest, InsertionsThatContradictThemselvesStopTheProgram) {
  SmallCache cache;
  const std::vector<PageId> one = {PageId{0}}, none = {PageId::kNone};
  const Tokens tokens = {7};
  EXPECT_DEATH((void)cache.tree.insert(tokens, one, none, 0, 0), "evicted");
  EXPECT_DEATH((void)cache.tree.insert(tokens, {}, {}, 0, 0), "num_pages");
}

}  // namespace
}  // namespace baleen
