// Pages from disk: a restarted engine goes on where the first one was, with or without window rows, and says the
// same to the bit.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512;

/// Window rows of four blocks, the MTP block among them: a replay takes two pages.
const test::RandomCheckpoint& three_layers() {
  static const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  return checkpoint;
}

EngineOptions options(Precision precision) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = 2,
          .max_batch_tokens = 2000,
          .max_logit_rows = 600,
          .max_sequences = 2,
          .cache_tokens = 12 * kPageTokens};
}

EngineOptions with_disk(Precision precision, const std::filesystem::path& folder, WindowPolicy policy) {
  EngineOptions with = options(precision);
  with.disk = DiskCacheOptions{.folder = folder,
                               .budget_bytes = std::int64_t{1} << 30,
                               .window_policy = policy,
                               .checkpoint_pages = 2};
  return with;
}

std::vector<TokenId> joined(std::span<const TokenId> a, std::span<const TokenId> b) {
  std::vector<TokenId> tokens(a.begin(), a.end());
  tokens.insert(tokens.end(), b.begin(), b.end());
  return tokens;
}

/// Runs a sequence in an engine of its own and keeps it.
void leave_on_disk(const EngineOptions& with, std::span<const TokenId> tokens, std::size_t chunk) {
  Engine engine(three_layers().path(), with);
  const SequenceId id = *engine.open(tokens);
  for (auto at = static_cast<std::size_t>(engine.length(id)); at < tokens.size(); at += chunk) {
    static_cast<void>(
        test::step(engine, id, tokens.subspan(at, std::min(chunk, tokens.size() - at)), WantedLogits::kNone));
  }
  engine.close(id, true);
}

/// Logits of the last `count` tokens of `prompt`, of an engine that may find the others; where it began.
struct Answer {
  std::vector<float> logits;
  std::int64_t found = 0;
};
Answer answer(Engine& engine, std::span<const TokenId> prompt, std::size_t count, std::size_t chunk) {
  const SequenceId id = *engine.open(prompt);
  Answer result{.found = engine.length(id)};
  const std::size_t head = prompt.size() - count;
  for (auto at = static_cast<std::size_t>(result.found); at < head; at += chunk) {
    static_cast<void>(
        test::step(engine, id, prompt.subspan(at, std::min(chunk, head - at)), WantedLogits::kNone));
  }
  result.logits = test::feed(engine, id, prompt.last(count), 7).main;
  engine.close(id, true);
  return result;
}

class Disk : public testing::TestWithParam<Precision> {};

TEST_P(Disk, ARestartedEngineGoesOn) {
  Engine cold(three_layers().path(), options(GetParam()));
  const std::vector<TokenId> tokens = test::random_tokens(1400, kVocab, 1);
  const std::vector<TokenId> rest = test::random_tokens(30, kVocab, 2);
  struct Case {
    WindowPolicy policy;
    /// Tokens of the second prompt that the first had too -> where it begins.
    std::vector<std::pair<std::size_t, std::int64_t>> found;
  };
  for (const Case& wanted :
       {Case{WindowPolicy::kAll, {{1400, 1280}, {800, 768}}},
        {WindowPolicy::kCheckpoints, {{1400, 1280}, {800, 512}}},  // its end, the fourth page
        {WindowPolicy::kNone, {{1400, 1280 - 512}, {800, 768 - 512}, {700, 0}}}}) {
    const test::TemporaryFolder folder;
    const EngineOptions with = with_disk(GetParam(), folder.path(), wanted.policy);
    leave_on_disk(with, tokens, 300);
    for (const auto& [shared, found] : wanted.found) {
      SCOPED_TRACE(fmt::format("policy {}, {} tokens shared", static_cast<int>(wanted.policy), shared));
      const std::vector<TokenId> prompt = joined(std::span(tokens).first(shared), rest);
      Engine engine(three_layers().path(), with);
      const Answer got = answer(engine, prompt, 30, 100), want = answer(cold, prompt, 30, 2000);
      EXPECT_EQ(got.found, found);
      EXPECT_SAME_BITS(got.logits, want.logits);
      // What came from disk, or was made behind it, is in the tree now.
      const Answer again = answer(engine, prompt, 30, 100);
      EXPECT_EQ(again.found, static_cast<std::int64_t>((prompt.size() - 1) / 256 * 256));
      EXPECT_SAME_BITS(again.logits, want.logits);
      EXPECT_EQ(engine.cache_use().pages.in_use, 0);
    }
  }
}

TEST_P(Disk, EveryPositionBehindAReplayIsExact) {
  Engine cold(three_layers().path(), options(GetParam()));
  const test::TemporaryFolder folder;
  const std::vector<TokenId> tokens = test::random_tokens(1300, kVocab, 1);
  const EngineOptions with = with_disk(GetParam(), folder.path(), WindowPolicy::kNone);
  leave_on_disk(with, tokens, 512);
  for (const std::uint32_t chunk : {2000, 111}) {
    const std::vector<TokenId> prompt =
        joined(std::span(tokens).first(1024), test::random_tokens(400, kVocab, chunk));
    Engine engine(three_layers().path(), with);
    const Answer got = answer(engine, prompt, 400, chunk), want = answer(cold, prompt, 400, 2000);
    EXPECT_EQ(got.found, 512);
    EXPECT_SAME_BITS(got.logits, want.logits);
  }
}

TEST(DiskUnderPressure, WhatIsEvictedComesBack) {
  const test::TemporaryFolder folder;
  Engine cold(three_layers().path(), options(Precision::kReleased));
  EngineOptions with = with_disk(Precision::kReleased, folder.path(), WindowPolicy::kAll);
  with.cache_tokens = 5 * kPageTokens;
  Engine engine(three_layers().path(), with);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
      const std::vector<TokenId> prompt = test::random_tokens(900, kVocab, seed);
      const Answer got = answer(engine, prompt, 10, 400), want = answer(cold, prompt, 10, 2000);
      EXPECT_EQ(got.found, round == 0 ? 0 : 768);
      EXPECT_SAME_BITS(got.logits, want.logits);
    }
  }
  EXPECT_GE(engine.disk_stats()->read_pages, 12);
}

TEST(DiskOfOthers, IsNotFound) {
  BALEEN_CPU_ONLY();  // other precisions too
  const test::TemporaryFolder folder;
  const std::vector<TokenId> tokens = test::random_tokens(600, kVocab, 1);
  leave_on_disk(with_disk(Precision::kReleased, folder.path(), WindowPolicy::kAll), tokens, 600);
  const auto found = [&](const std::filesystem::path& model, Precision precision) {
    Engine engine(model, with_disk(precision, folder.path(), WindowPolicy::kAll));
    return engine.length(*engine.open(tokens));
  };
  EXPECT_EQ(found(three_layers().path(), Precision::kReleased), 512);
  EXPECT_EQ(found(three_layers().path(), Precision::kBf16), 0);
  const test::RandomCheckpoint other(with_layers(preset_config("tiny-flash"), 3), 6);
  EXPECT_EQ(found(other.path(), Precision::kReleased), 0);
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, Disk,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

}  // namespace
}  // namespace baleen
