// Patterns of handing on a stage of a ring: right to the word over many rounds, and for compute-sanitizer's
// racecheck (scripts/test_gpu.sh sanitize) the yardstick of what that tool follows.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ring_handover.h"
#include "tests/support/test_cuda.h"

namespace baleen::ring_handover {
namespace {

constexpr int kNumRounds = 37, kNumCtas = 8;

std::vector<std::uint32_t> random_words() {
  std::mt19937 random(5);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(kNumRounds) * kWordsOfStage);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

void expect_every_word_read(Pattern pattern) {
  const std::vector<std::uint32_t> source = random_words();
  std::vector<std::uint32_t> want(kReaders);
  for (std::uint32_t round = 0; round < kNumRounds; ++round) {
    for (int i = 0; i < kWordsOfStage; ++i) {
      want[static_cast<std::size_t>(i % kReaders)] +=
          (round + 1) * source[round * kWordsOfStage + static_cast<std::size_t>(i)];
    }
    if (pattern == Pattern::kLoaderStoresBeside) {
      for (std::uint32_t& sum : want) sum += round;
    }
  }
  test::TestCuda cuda(1 << 20);
  auto* out = cuda.allocate<std::uint32_t>(kNumCtas * kReaders);
  run(pattern, cuda.upload(source), kNumRounds, kNumCtas, out, cuda.context().stream);
  cuda.synchronise();
  const auto got = cuda.download(out, kNumCtas * kReaders);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i % kReaders]) << "reader " << i;
}

void expect_every_word_handed_on(Pattern pattern) {
  constexpr std::size_t kLanes = 32;
  const std::vector<std::uint32_t> source = random_words();
  std::vector<std::uint32_t> want(kLanes);
  for (std::uint32_t round = 0; round < kNumRounds; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      want[lane] += (round + 1) * source[round * kWordsOfStage + lane];
  }
  test::TestCuda cuda(1 << 20);
  auto* out = cuda.allocate<std::uint32_t>(kNumCtas * kReaders);
  run(pattern, cuda.upload(source), kNumRounds, kNumCtas, out, cuda.context().stream);
  cuda.synchronise();
  const auto got = cuda.download(out, kNumCtas * kReaders);
  for (std::size_t cta = 0; cta < kNumCtas; ++cta) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      ASSERT_EQ(got[cta * kReaders + lane], want[lane]) << "CTA " << cta << ", lane " << lane;
  }
}

TEST(RingHandoverSm90, EveryThreadFrees) {
  BALEEN_NEEDS_GPU();
  expect_every_word_read(Pattern::kEveryThreadFrees);
}
TEST(RingHandoverSm90, OneLaneFrees) {
  BALEEN_NEEDS_GPU();
  expect_every_word_read(Pattern::kOneLaneFrees);
}
TEST(RingHandoverSm90, LoaderStoresBeside) {
  BALEEN_NEEDS_GPU();
  expect_every_word_read(Pattern::kLoaderStoresBeside);
}
TEST(RingHandoverSm90, WarpFills) {
  BALEEN_NEEDS_GPU();
  expect_every_word_read(Pattern::kWarpFills);
}
TEST(RingHandoverSm90, ClusterFrees) {
  BALEEN_NEEDS_GPU();
  expect_every_word_read(Pattern::kClusterFrees);
}

TEST(RingHandoverSm90, ThroughThird) {
  BALEEN_NEEDS_GPU();
  expect_every_word_handed_on(Pattern::kThroughThird);
}
TEST(RingHandoverSm90, NamedBarriers) {
  BALEEN_NEEDS_GPU();
  expect_every_word_handed_on(Pattern::kNamedBarriers);
}

}  // namespace
}  // namespace baleen::ring_handover
