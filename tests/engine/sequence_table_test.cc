// Sequences that share prefixes, in pools that are too small.
#include "engine/sequence_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>
#include <vector>

#include "tests/engine/sequence_world.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using test::drawn_tokens;
using test::World;

TEST(SequenceTable, APromptIsFoundUpToItsLastWholePageButNeverInFull) {
  World world({.num_pages = 20, .num_window_pages = 20, .num_state_slots = 2});
  const std::vector<TokenId> tokens = drawn_tokens(800, 1);
  const SequenceId first = *world.table.open(tokens);
  EXPECT_EQ(world.table.length(first), 0);
  world.feed(first, tokens);
  EXPECT_EQ(world.found(std::span(tokens).first(800)), 768);
  EXPECT_EQ(world.found(std::span(tokens).first(769)), 768);
  EXPECT_EQ(world.found(std::span(tokens).first(256)), 0);
  std::vector<TokenId> other = tokens;
  other[700] = 5000;
  EXPECT_EQ(world.found(other), 512);  // the chunk that ended behind 512 left its window there
  world.table.close(first, true);
  EXPECT_EQ(world.table.cache_use().pages.cached, 3);
  EXPECT_EQ(world.table.cache_use().pages.in_use, 0);
  EXPECT_EQ(world.table.cache_use().state_slots.free, 2);
}

TEST(SequenceTable, KeepsNothingUnlessAskedTo) {
  const std::vector<TokenId> tokens = drawn_tokens(600, 1);
  for (const bool shares : {true, false}) {
    World world({.num_pages = 8, .num_window_pages = 8, .num_state_slots = 1}, shares);
    const SequenceId id = *world.table.open(tokens);
    EXPECT_EQ(world.table.open(tokens), std::nullopt);
    ASSERT_TRUE(world.step(id, tokens));
    world.table.close(id, !shares);  // without a prefix cache there is nothing to keep it in
    EXPECT_EQ(world.table.cache_use().pages.free, 8);
    EXPECT_EQ(world.table.cache_use().window_pages.free, 8);
    EXPECT_TRUE(world.table.tree(10).size() <= 1);
  }
}

TEST(SequenceTable, TwoThatComputeTheSameGoOnWithOneCopy) {
  World world({.num_pages = 8, .num_window_pages = 8, .num_state_slots = 2});
  const std::vector<TokenId> tokens = drawn_tokens(600, 1);
  const SequenceId first = *world.table.open(tokens), second = *world.table.open(tokens);
  ASSERT_TRUE(world.step(first, tokens));
  ASSERT_TRUE(world.step(second, tokens));
  EXPECT_EQ(world.table.cache_use().pages.in_use, 6);
  world.table.share(first);
  world.table.share(second);
  EXPECT_EQ(world.table.cache_use().pages.cached, 2);
  EXPECT_EQ(world.table.cache_use().pages.in_use, 2);
  world.table.check_integrity();
  const std::vector<TokenId> more = drawn_tokens(300, 2);
  EXPECT_TRUE(world.step(first, more));
  EXPECT_TRUE(world.step(second, more));
}

TEST(SequenceTable, EvictsPrefixesThatNobodyUsesAndNoOthers) {
  World world({.num_pages = 8, .num_window_pages = 8, .num_state_slots = 3});
  const std::vector<TokenId> old = drawn_tokens(600, 1), used = drawn_tokens(600, 2),
                             next = drawn_tokens(1100, 3);
  for (const auto* tokens : {&old, &used}) {
    const SequenceId id = *world.table.open(*tokens);
    world.feed(id, *tokens);
    world.table.close(id, true);
  }
  EXPECT_EQ(world.table.cache_use().pages.cached, 4);
  const SequenceId holder = *world.table.open(used);
  EXPECT_EQ(world.table.length(holder), 512);
  const SequenceId id = *world.table.open(next);
  ASSERT_TRUE(world.step(id, next));  // 5 pages: 4 are free
  world.table.check_integrity();
  EXPECT_EQ(world.found(used), 512);
  EXPECT_FALSE(world.step(id, drawn_tokens(600, 4)));
  EXPECT_EQ(world.table.length(id), 1100);
  EXPECT_EQ(world.found(used), 512);  // the holder's; a request that cannot be met evicts nothing
  world.table.close(holder, false);
  EXPECT_TRUE(world.step(id, drawn_tokens(600, 4)));
  EXPECT_EQ(world.found(used), 256);  // one page was short
}

TEST(SequenceTable, WindowsOfPassedPrefixesAreReleasedOnlyWhenPagesAreShort) {
  World world({.num_pages = 20, .num_window_pages = 4, .num_state_slots = 3});
  const std::vector<TokenId> tokens = drawn_tokens(300, 1), more = drawn_tokens(800, 2);
  const SequenceId first = *world.table.open(tokens);
  world.feed(first, tokens);
  ASSERT_TRUE(world.step(first, std::span(more).first(400)));  // far beyond position 256
  EXPECT_EQ(world.found(tokens), 256);
  const SequenceId second = *world.table.open(more);
  ASSERT_TRUE(world.step(second, std::span(more).first(256)));
  EXPECT_EQ(world.found(tokens), 256);
  ASSERT_TRUE(world.step(second, std::span(more).subspan(256, 1)));  // the fourth page is the first's window
  EXPECT_EQ(world.found(tokens), 0);
  world.table.check_integrity();
  EXPECT_TRUE(world.step(first, std::span(more).first(1)));
}

TEST(SequenceTable, GivesBackRoomThatWasReserved) {
  World world({.num_pages = 4, .num_window_pages = 4, .num_state_slots = 2});
  const SequenceId id = *world.table.open({});
  ASSERT_TRUE(world.table.reserve(id, 600));
  EXPECT_EQ(world.table.reserved(id), 768);
  EXPECT_FALSE(world.table.reserve(id, 1025));
  EXPECT_EQ(world.table.cache_use().pages.in_use, 3);
  world.table.give_back(id, 10);
  EXPECT_EQ(world.table.cache_use().pages.in_use, 1);
  EXPECT_EQ(world.table.reserved(id), 256);
}

using SequenceTableDeathTest = testing::Test;

TEST(SequenceTableDeathTest, WhatWasSharedIsNotTakenBack) {
  World world({.num_pages = 4, .num_window_pages = 4, .num_state_slots = 1});
  const SequenceId id = *world.table.open({});
  const std::vector<TokenId> tokens = drawn_tokens(257, 1);
  ASSERT_TRUE(world.step(id, tokens));
  world.table.share(id);
  world.table.truncate(id, 256);
  EXPECT_DEATH(world.table.truncate(id, 255), "num_borrowed");
  EXPECT_DEATH(world.table.truncate(id, 200), "max_draft_tokens");
}

/// Random sequences over families of prompts: a few beginnings, of which most others are continuations.
class RandomLife {
 public:
  explicit RandomLife(std::uint32_t seed, DiskTier* disk = nullptr)
      : random_(seed),
        world_({.num_pages = in_range(4, 24), .num_window_pages = in_range(3, 16), .num_state_slots = 4},
               true, in_range(0, 2), disk) {}

  /// What earlier lives were asked.
  void remember(const std::vector<std::vector<TokenId>>& families) { families_ = families; }
  [[nodiscard]] const std::vector<std::vector<TokenId>>& families() const { return families_; }

  /// One action; checks everything after it.
  void act() {
    const std::int64_t action = in_range(0, 13);
    if (action <= 2) {
      open();
    } else if (!open_.empty()) {
      Open& one = open_[static_cast<std::size_t>(in_range(0, static_cast<std::int64_t>(open_.size()) - 1))];
      if (action <= 4) {
        world_.table.close(one.id, action == 3);
        std::swap(one, open_.back());
        open_.pop_back();
      } else if (action == 5) {
        world_.table.share(one.id);
      } else if (world_.table.length(one.id) < static_cast<std::int64_t>(one.prompt.size())) {
        prefill(one);
      } else {
        speculate(one);
      }
    }
    world_.table.check_integrity();
  }

  std::int64_t hits = 0, steps = 0, refusals = 0;

 private:
  struct Open {
    SequenceId id;
    std::vector<TokenId> prompt;
  };

  std::int64_t in_range(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  std::size_t one_of(std::initializer_list<std::size_t> choices) {
    return choices.begin()[in_range(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

  void open() {
    std::vector<TokenId> prompt;
    if (!families_.empty() && in_range(0, 4) > 0) {
      prompt =
          families_[static_cast<std::size_t>(in_range(0, static_cast<std::int64_t>(families_.size()) - 1))];
      prompt.resize(std::min(prompt.size(), one_of({255, 256, 257, 512, 700, 768, 1024})));
    }
    const std::vector<TokenId> rest =
        drawn_tokens(one_of({1, 3, 200, 256, 300, 600}), static_cast<std::uint32_t>(random_()));
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    families_.push_back(prompt);
    const auto id = world_.table.open(prompt);
    ASSERT_EQ(id.has_value(), open_.size() < 4);
    if (!id) return;
    ASSERT_LT(world_.table.length(*id), static_cast<std::int64_t>(prompt.size()));
    ASSERT_TRUE(world_.model.sees(world_.table.slice(*id, 0, 0), world_.table.tokens(*id)));
    if (world_.table.length(*id) > 0) ++hits;
    open_.push_back({*id, std::move(prompt)});
  }
  void prefill(Open& one) {
    const auto length = static_cast<std::size_t>(world_.table.length(one.id));
    const auto count = std::min(one.prompt.size() - length, one_of({1, 4, 255, 256, 300}));
    step(one, std::span(one.prompt).subspan(length, count));
  }
  void speculate(Open& one) {
    const std::int64_t length = world_.table.length(one.id);
    const std::vector<TokenId> tokens = drawn_tokens(static_cast<std::size_t>(in_range(1, 1 + test::kDrafts)),
                                                     static_cast<std::uint32_t>(random_()));
    if (!step(one, tokens)) return;
    world_.table.truncate(one.id, length + in_range(1, static_cast<std::int64_t>(tokens.size())));
    one.prompt.assign(world_.table.tokens(one.id).begin(), world_.table.tokens(one.id).end());
    families_.push_back(one.prompt);
  }
  bool step(const Open& one, std::span<const TokenId> tokens) {
    const bool done = world_.step(one.id, tokens);
    ++(done ? steps : refusals);
    return done;
  }

  std::mt19937 random_;
  World world_;
  std::vector<Open> open_;
  std::vector<std::vector<TokenId>> families_;
};

TEST(SequenceTable, NothingThatHappensShowsInWhatASequenceReads) {
  std::int64_t hits = 0, steps = 0, refusals = 0;
  EXPECT_TRUE(rc::check([&] {
    RandomLife life(*rc::gen::arbitrary<std::uint32_t>());
    for (int i = 0; i < 400; ++i) {
      life.act();
      RC_ASSERT(!testing::Test::HasFailure());
    }
    hits += life.hits;
    steps += life.steps;
    refusals += life.refusals;
  }));
  EXPECT_GT(hits, 500);
  EXPECT_GT(steps, 3000);
  EXPECT_GT(refusals, 100);
}

/// Lives that follow one another over one folder, each with all that the others left on disk, which is too small.
TEST(SequenceTable, NothingThatHappensOnDiskShowsEither) {
  const CacheGeometry geometry = test::geometry();
  for (const WindowPolicy policy : {WindowPolicy::kAll, WindowPolicy::kCheckpoints, WindowPolicy::kNone}) {
    const test::TemporaryFolder folder;
    std::vector<std::vector<TokenId>> families;
    std::int64_t read_pages = 0, evicted_files = 0;
    for (std::uint32_t seed = 0; seed < 5; ++seed) {
      DiskTier disk({.folder = folder.path(),
                     .budget_bytes = 60'000,
                     .window_policy = policy,
                     .checkpoint_pages = 2,
                     .fingerprint = "pretended",
                     .page_bytes = geometry.page_bytes(),
                     .window_page_bytes = geometry.window_page_bytes()},
                    [](const std::string& sentence) { FAIL() << sentence; });
      RandomLife life(seed, &disk);
      life.remember(families);
      for (int i = 0; i < 200 && !HasFailure(); ++i) life.act();
      families = life.families();
      read_pages += disk.stats().read_pages;
      disk.flush();
      evicted_files += disk.stats().evicted_files;
    }
    fmt::print("policy {}: {} pages read, {} files evicted\n", static_cast<int>(policy), read_pages,
               evicted_files);
    EXPECT_GT(read_pages, 10);
    EXPECT_GT(evicted_files, 10);
  }
}

}  // namespace
}  // namespace baleen
