// Pages from disk: a restarted engine goes on where the first one was, with or without window rows, and says
// the same to the bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

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

/// A copy of `from` in `to` with one byte of its tensors changed; `where` from 0 to 1.
void copy_but_for_one_byte(const std::filesystem::path& from, const std::filesystem::path& to, double where) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  std::vector<std::filesystem::path> shards;
  for (const auto& entry : std::filesystem::directory_iterator(to)) {
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  }
  std::ranges::sort(shards);
  ASSERT_FALSE(shards.empty());
  const auto& shard = shards[static_cast<std::size_t>(where * static_cast<double>(shards.size() - 1))];
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(shard));
  const std::int64_t begin = static_cast<std::int64_t>(sizeof(header) + header);
  const std::int64_t at = begin + static_cast<std::int64_t>(where * static_cast<double>(size - 1 - begin));
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.good());
}

TEST(DiskOfOthers, OneByteAnywhereMakesAnotherModel) {
  const test::TemporaryFolder folder, copies;
  const std::vector<TokenId> tokens = test::random_tokens(600, kVocab, 1);
  const EngineOptions with = with_disk(Precision::kReleased, folder.path(), WindowPolicy::kAll);
  leave_on_disk(with, tokens, 600);
  const auto found = [&](const std::filesystem::path& model) {
    Engine engine(model, with);
    return engine.length(*engine.open(tokens));
  };
  for (const double where : {0.0, 0.123, 0.37, 0.5, 0.77, 0.999, 1.0}) {
    const std::filesystem::path copy = copies.path() / fmt::format("{}", where);
    copy_but_for_one_byte(three_layers().path(), copy, where);
    EXPECT_EQ(found(copy), 0) << where;
  }
  // The same bytes elsewhere are the same model.
  std::filesystem::copy(three_layers().path(), copies.path() / "same",
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(found(copies.path() / "same"), 512);
  // Another config that the weights fit too.
  const std::filesystem::path other = copies.path() / "config";
  std::filesystem::copy(three_layers().path(), other, std::filesystem::copy_options::recursive);
  std::ofstream(other / "config.json", std::ios::app) << "\n";
  EXPECT_EQ(found(other), 0);
}

TEST(DiskBeside, IsUsedOnceTheModelIsKnown) {
  const test::TemporaryFolder folder, model;
  std::filesystem::copy(three_layers().path(), model.path() / "model",
                        std::filesystem::copy_options::recursive);
  const std::filesystem::path path = model.path() / "model";
  const std::vector<TokenId> tokens = test::random_tokens(900, kVocab, 1),
                             other = test::random_tokens(600, kVocab, 2);
  // Of files that changed in this tick of the clock nothing is kept.
  for (const MappedFile* file : Checkpoint(path).files()) {
    while (file->version().may_change_unseen()) std::this_thread::yield();
  }
  EngineOptions with = with_disk(Precision::kReleased, folder.path(), WindowPolicy::kAll);
  with.disk->max_bytes_hashed_at_start = 0;
  std::vector<std::string> sentences;
  std::mutex mutex;
  with.disk->warn = [&](const std::string& sentence) {
    const std::lock_guard lock(mutex);
    sentences.push_back(sentence);
  };
  {
    Engine engine(path, with);
    // One sequence is closed and one is under way when the disk comes, at the latest with the last of the
    // others.
    const SequenceId closed = *engine.open(tokens), running = *engine.open(other);
    static_cast<void>(test::step(engine, closed, tokens, WantedLogits::kNone));
    static_cast<void>(test::step(engine, running, other, WantedLogits::kNone));
    engine.close(closed, true);
    for (int i = 0; i < 60'000 && !engine.disk_stats()->knows_model; ++i) {
      engine.close(*engine.open({}), false);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(engine.disk_stats()->knows_model);
    EXPECT_EQ(engine.disk_stats()->hashed_bytes, engine.disk_stats()->bytes_to_hash);
    EXPECT_GT(engine.disk_stats()->bytes_to_hash, 0);
  }
  ASSERT_GE(sentences.size(), 2u);
  EXPECT_NE(sentences.front().find("are read once"), std::string::npos) << sentences.front();
  Engine again(path, with);
  EXPECT_TRUE(again.disk_stats()->knows_model);  // at once: the digests are kept
  EXPECT_EQ(again.disk_stats()->bytes_to_hash, 0);
  EXPECT_EQ(again.length(*again.open(tokens)), 768);
  EXPECT_EQ(again.length(*again.open(other)), 512);
}

TEST(DiskBeside, AnEngineThatEndsBeforeDoesNotWait) {
  const test::TemporaryFolder folder;
  EngineOptions with = with_disk(Precision::kReleased, folder.path(), WindowPolicy::kAll);
  with.disk->max_bytes_hashed_at_start = 0;
  for (int i = 0; i < 3; ++i) {
    const Engine engine(three_layers().path(), with);
    EXPECT_TRUE(engine.disk_stats().has_value());
  }
  EXPECT_THROW(
      {
        const Engine one(three_layers().path(), with);
        const Engine two(three_layers().path(), with);  // hears of the first at once
      },
      Error);
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, Disk,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

}  // namespace
}  // namespace baleen
