// Sequences without a model: a pretended forward pass writes into every cache row what the tokens up to it hash to,
// and reads, before every step, all the rows that a real one would. So a page that is shared too early, freed too
// early, written by two, or lost, shows at once.
#include "engine/sequence_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>
#include <vector>

namespace baleen {
namespace {

constexpr std::int64_t kWindow = 128;
constexpr std::int64_t kDrafts = 3;

CacheGeometry geometry(bool shares_prefixes = true) {
  return {.ratios = {4},
          .latent = {64, 64, Precision::kReleased},
          .index_key = {128, Precision::kReleased},
          .window_tokens = kWindow,
          .max_draft_tokens = kDrafts,
          .shares_prefixes = shares_prefixes};
}

/// hash[t]: of tokens 0..t; exact in a float.
std::vector<float> prefix_hashes(std::span<const TokenId> tokens) {
  std::vector<float> hashes;
  std::uint64_t state = 1469598103934665603ULL;
  for (const TokenId token : tokens) {
    state = (state ^ static_cast<std::uint64_t>(token + 1)) * 1099511628211ULL;
    hashes.push_back(static_cast<float>(state >> 44));
  }
  return hashes;
}

class PretendedModel {
 public:
  explicit PretendedModel(const KvCache& cache) : cache_(cache) {}

  /// Whether the rows that the next step of `slice` reads are those of the tokens before it.
  [[nodiscard]] bool sees(const SequenceSlice& slice, std::span<const TokenId> tokens) const {
    const std::vector<float> hashes = prefix_hashes(tokens);
    const auto hash = [&](std::int64_t position) { return hashes[static_cast<std::size_t>(position)]; };
    const std::int64_t length = slice.start;
    for (std::int64_t entry = 0; entry < length / 4; ++entry) {
      if (*entry_of(slice, entry) != hash(4 * entry + 3)) return false;
    }
    for (std::int64_t t = std::max<std::int64_t>(0, length - kWindow); t < length; ++t) {
      if (*window_row(slice, t) != hash(t)) return false;
    }
    for (std::int64_t t = std::max<std::int64_t>(0, length / 4 * 4 - 4); t < length; ++t) {
      if (cache_.main_state(0).kv_row(slice.state_slot, t)[0] != hash(t)) return false;
      if (cache_.index_state(0).gate_row(slice.state_slot, t)[0] != hash(t)) return false;
    }
    return true;
  }

  void step(const SequenceSlice& slice, std::span<const TokenId> all_tokens) {
    const std::vector<float> hashes = prefix_hashes(all_tokens);
    for (std::int64_t t = slice.start; t < slice.start + slice.num_tokens; ++t) {
      const float hash = hashes[static_cast<std::size_t>(t)];
      *window_row(slice, t) = hash;
      if (t % 4 == 3) *entry_of(slice, t / 4) = hash;
      cache_.main_state(0).kv_row(slice.state_slot, t)[0] = hash;
      cache_.index_state(0).gate_row(slice.state_slot, t)[0] = hash;
      if (t % kPageTokens < kPageTokens - kOverlapRows) continue;
      const PageId page = slice.window_pages[static_cast<std::size_t>(t / kPageTokens)];
      cache_.main_overlap(0).kv_row(page, t)[0] = hash;
      cache_.index_overlap(0).gate_row(page, t)[0] = hash;
    }
  }

 private:
  [[nodiscard]] static float* row(const LatentPool& pool, PageId page, std::int64_t row) {
    return reinterpret_cast<float*>(pool.page(static_cast<std::int64_t>(page))) + row;
  }
  [[nodiscard]] float* window_row(const SequenceSlice& slice, std::int64_t t) const {
    return row(cache_.window(0), slice.window_pages[static_cast<std::size_t>(t / kPageTokens)],
               t % kPageTokens);
  }
  [[nodiscard]] float* entry_of(const SequenceSlice& slice, std::int64_t entry) const {
    return row(cache_.compressed(0), slice.pages[static_cast<std::size_t>(entry / 64)], entry % 64);
  }

  const KvCache& cache_;
};

/// A table, its cache, and steps that are checked.
struct World {
  explicit World(CacheCapacity capacity, bool shares_prefixes = true, std::int64_t reserved_tails = 0)
      : cache(geometry(shares_prefixes), capacity), table(cache, reserved_tails), model(cache) {}

  /// The next tokens of a sequence; false when there is no room.
  [[nodiscard]] bool step(SequenceId id, std::span<const TokenId> tokens) {
    if (!table.reserve(id, static_cast<std::int64_t>(tokens.size()))) return false;
    const SequenceSlice slice = table.slice(id, 0, static_cast<std::int64_t>(tokens.size()));
    EXPECT_TRUE(model.sees(slice, table.tokens(id))) << "at " << table.length(id);
    std::vector<TokenId> all(table.tokens(id).begin(), table.tokens(id).end());
    all.insert(all.end(), tokens.begin(), tokens.end());
    model.step(slice, all);
    table.commit(id, tokens);
    return true;
  }
  /// All of `tokens` that the sequence has not seen, in chunks; shares after each.
  void feed(SequenceId id, std::span<const TokenId> tokens, std::size_t chunk = 200) {
    for (auto at = static_cast<std::size_t>(table.length(id)); at < tokens.size(); at += chunk) {
      ASSERT_TRUE(step(id, tokens.subspan(at, std::min(chunk, tokens.size() - at))));
      table.share(id);
      table.check_integrity();
    }
  }
  std::int64_t found(std::span<const TokenId> prompt) {
    const SequenceId id = *table.open(prompt);
    const std::int64_t length = table.length(id);
    EXPECT_TRUE(model.sees(table.slice(id, 0, 0), table.tokens(id)));
    table.close(id, false);
    return length;
  }

  KvCache cache;
  SequenceTable table;
  PretendedModel model;
};

std::vector<TokenId> random_tokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 1000);
  return tokens;
}

TEST(SequenceTable, APromptIsFoundUpToItsLastWholePageButNeverInFull) {
  World world({.num_pages = 20, .num_window_pages = 20, .num_state_slots = 2});
  const std::vector<TokenId> tokens = random_tokens(800, 1);
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
  const std::vector<TokenId> tokens = random_tokens(600, 1);
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
  const std::vector<TokenId> tokens = random_tokens(600, 1);
  const SequenceId first = *world.table.open(tokens), second = *world.table.open(tokens);
  ASSERT_TRUE(world.step(first, tokens));
  ASSERT_TRUE(world.step(second, tokens));
  EXPECT_EQ(world.table.cache_use().pages.in_use, 6);
  world.table.share(first);
  world.table.share(second);
  EXPECT_EQ(world.table.cache_use().pages.cached, 2);
  EXPECT_EQ(world.table.cache_use().pages.in_use, 2);
  world.table.check_integrity();
  const std::vector<TokenId> more = random_tokens(300, 2);
  EXPECT_TRUE(world.step(first, more));
  EXPECT_TRUE(world.step(second, more));
}

TEST(SequenceTable, EvictsPrefixesThatNobodyUsesAndNoOthers) {
  World world({.num_pages = 8, .num_window_pages = 8, .num_state_slots = 3});
  const std::vector<TokenId> old = random_tokens(600, 1), used = random_tokens(600, 2),
                             next = random_tokens(1100, 3);
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
  EXPECT_FALSE(world.step(id, random_tokens(600, 4)));
  EXPECT_EQ(world.table.length(id), 1100);
  EXPECT_EQ(world.found(used), 512);  // the holder's; a request that cannot be met evicts nothing
  world.table.close(holder, false);
  EXPECT_TRUE(world.step(id, random_tokens(600, 4)));
  EXPECT_EQ(world.found(used), 256);  // one page was short
}

TEST(SequenceTable, WindowsOfPassedPrefixesAreReleasedOnlyWhenPagesAreShort) {
  World world({.num_pages = 20, .num_window_pages = 4, .num_state_slots = 3});
  const std::vector<TokenId> tokens = random_tokens(300, 1), more = random_tokens(800, 2);
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
  const std::vector<TokenId> tokens = random_tokens(257, 1);
  ASSERT_TRUE(world.step(id, tokens));
  world.table.share(id);
  world.table.truncate(id, 256);
  EXPECT_DEATH(world.table.truncate(id, 255), "num_borrowed");
  EXPECT_DEATH(world.table.truncate(id, 200), "max_draft_tokens");
}

/// Random sequences over families of prompts: a few beginnings, of which most others are continuations.
class RandomLife {
 public:
  explicit RandomLife(std::uint32_t seed)
      : random_(seed),
        world_({.num_pages = in_range(4, 24), .num_window_pages = in_range(3, 16), .num_state_slots = 4},
               true, in_range(0, 2)) {}

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
        random_tokens(one_of({1, 3, 200, 256, 300, 600}), static_cast<std::uint32_t>(random_()));
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
    const std::vector<TokenId> tokens = random_tokens(static_cast<std::size_t>(in_range(1, 1 + kDrafts)),
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

}  // namespace
}  // namespace baleen
