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

std::vector<TokenId> joined(std::span<const TokenId> a, std::span<const TokenId> b) {
  std::vector<TokenId> tokens(a.begin(), a.end());
  tokens.insert(tokens.end(), b.begin(), b.end());
  return tokens;
}

/// A request as the scheduler runs it: its prompt in steps of `chunk`, shared at its end.
std::int64_t run_prompt(World& world, std::span<const TokenId> prompt, std::size_t chunk = 512,
                        std::int64_t section_end = 0) {
  const SequenceId id = *world.table.open(prompt);
  const std::int64_t found = world.table.length(id);
  world.table.keep_tail(id, section_end);
  world.feed(id, prompt, chunk, false);
  world.table.close(id, true);
  return found;
}

TEST(SequenceTable, TheThirdPromptBehindOneBeginningFindsIt) {
  World world({.num_pages = 100, .num_window_pages = 40, .num_state_slots = 2});
  const std::vector<TokenId> system = drawn_tokens(6300, 1);
  const std::vector<std::int64_t> want{0, 0, 6144, 6144, 6144};
  for (std::uint32_t i = 0; i < want.size(); ++i) {
    const std::vector<TokenId> prompt = joined(system, drawn_tokens(700, 10 + i));
    const SequenceId id = *world.table.open(prompt);
    EXPECT_EQ(world.table.length(id), want[i]) << i;
    const PrefixLookup& lookup = world.table.lookup(id);
    EXPECT_EQ(lookup.lost_tokens, i == 1 ? 6144 : 0) << i;
    EXPECT_EQ(lookup.first_difference, i == 0 ? 0 : 6300) << i;
    const PrefixEnd ends[] = {PrefixEnd::kEmpty, PrefixEnd::kNoTail, PrefixEnd::kDiffers};
    EXPECT_EQ(lookup.end, ends[std::min<std::uint32_t>(i, 2)]) << i;
    world.feed(id, prompt, 512, false);
    world.table.close(id, true);
  }
}

TEST(SequenceTable, TheSecondPromptFindsASectionWhoseEndWasSaid) {
  for (const std::size_t chunk : {100, 512, 3000}) {
    for (const std::int64_t end : {256, 300, 2000, 2303, 2304}) {
      World world({.num_pages = 100, .num_window_pages = 40, .num_state_slots = 2});
      const std::vector<TokenId> system = drawn_tokens(static_cast<std::size_t>(end), 1);
      EXPECT_EQ(run_prompt(world, joined(system, drawn_tokens(700, 2)), chunk, end), 0);
      const std::vector<TokenId> second = joined(system, drawn_tokens(700, 3));
      EXPECT_EQ(world.found(second), end / kPageTokens * kPageTokens) << chunk << " " << end;
      EXPECT_EQ(run_prompt(world, second, chunk, end), end / kPageTokens * kPageTokens);
    }
  }
}

TEST(SequenceTable, SeveralSectionsOfOnePromptAreFoundEach) {
  World world({.num_pages = 100, .num_window_pages = 40, .num_state_slots = 2});
  const std::vector<TokenId> prompt = drawn_tokens(3000, 1);
  const SequenceId id = *world.table.open(prompt);
  for (const std::int64_t end : {1100, 520, 0, -1, 1090, 2999, 100'000}) world.table.keep_tail(id, end);
  ASSERT_TRUE(world.step(id, prompt));  // all of them within one step
  world.table.check_integrity();
  world.table.close(id, false);  // what was left on the way stays
  for (const auto& [shared, found] : {std::pair{600, 512}, {1090, 1024}, {1300, 1024}, {2900, 2816}}) {
    const auto first = std::span(prompt).first(static_cast<std::size_t>(shared));
    EXPECT_EQ(world.found(joined(first, drawn_tokens(400, 7))), found) << shared;
  }
}

TEST(SequenceTable, KeptTailsAreFewAndTheLeastUsedGo) {
  World world({.num_pages = 400, .num_window_pages = 40, .num_state_slots = 2});  // ten of them at most
  const auto system = [](std::uint32_t seed) { return drawn_tokens(600, seed); };
  for (std::uint32_t i = 0; i < 14; ++i) {
    static_cast<void>(run_prompt(world, joined(system(i), drawn_tokens(300, 100 + i)), 512, 600));
    EXPECT_EQ(world.found(joined(system(0), drawn_tokens(9, 7))), 512);  // it stays in use
  }
  EXPECT_GT(world.table.cache_use().window_pages.free, 10);
  std::int64_t num_found = 0;
  for (std::uint32_t i = 0; i < 14; ++i) {
    const std::int64_t found = world.found(joined(system(i), drawn_tokens(300, 200 + i)));
    EXPECT_EQ(found, i == 0 || i > 3 ? 512 : 0) << i;
    num_found += found > 0 ? 1 : 0;
  }
  EXPECT_EQ(num_found, 11);  // the latest one beside them
  const SequenceId lost = *world.table.open(joined(system(1), drawn_tokens(300, 300)));
  EXPECT_EQ(world.table.lookup(lost).end, PrefixEnd::kTailEvicted);
}

TEST(SequenceTable, ATailIsNotLeftWhereAStepMayBeTakenBack) {
  World world({.num_pages = 20, .num_window_pages = 20, .num_state_slots = 2});
  const std::vector<TokenId> tokens = drawn_tokens(512, 1);
  const SequenceId id = *world.table.open(joined(tokens, drawn_tokens(9, 2)));
  world.table.keep_tail(id, 512);
  ASSERT_TRUE(world.step(id, std::span(tokens).first(509)));
  ASSERT_TRUE(world.step(id, drawn_tokens(1 + test::kDrafts, 3)));
  EXPECT_EQ(world.table.shared_tokens(id), 0);  // of 513 tokens
  world.table.truncate(id, 510);
  ASSERT_TRUE(world.step(id, drawn_tokens(2, 4)));
  EXPECT_EQ(world.table.shared_tokens(id), 0);
  ASSERT_TRUE(world.step(id, drawn_tokens(1 + test::kDrafts, 5)));
  EXPECT_EQ(world.table.shared_tokens(id), 512);
  world.table.truncate(id, 513);
  world.table.check_integrity();
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
    for (std::int64_t tails = in_range(0, 2); tails > 0; --tails)
      world_.table.keep_tail(*id, in_range(0, static_cast<std::int64_t>(prompt.size())));
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

/// Lives that follow one another over one folder, each with all that the others left on disk, which is too
/// small.
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
