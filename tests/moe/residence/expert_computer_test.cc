// Experts that the host computes: the thread that answers kernels, asked as these do.
#include "moe/residence/expert_computer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/moe/residence/asked_rows.h"

namespace baleen {
namespace {

struct Asked {
  std::int32_t expert;
  std::int32_t place;
  std::vector<std::int32_t> tokens;
};

class ExpertComputerOf : public testing::Test {
 protected:
  static constexpr float kLimit = 7.0F;
  static constexpr std::int32_t kOnDisk = -1;

  ExpertComputerOf()
      : pool_(1),
        weights_(made_up_weights(preset_config("tiny-flash"), 1, pool_, MadeUpBytes::kOfEachTensor)),
        computer_({.find =
                       [this](std::int64_t block, std::int64_t expert, std::int32_t place) {
                         num_on_disk_ += place == kOnDisk ? 1 : 0;
                         return weights_of(block, expert);
                       },
                   .acquire = [this](const ExpertWeights&) { ++num_acquired_; },
                   .release = [this](const ExpertWeights&) { ++num_released_; },
                   .on_host = [this](std::int32_t place) -> std::optional<ExpertWeights> {
                     read_ahead_.push_back(place);
                     ++num_read_ahead_;
                     if (place % 2 == 0) return std::nullopt;
                     return weights_of(0, 0);
                   }},
                  weights_of(0, 0), kLimit, 2, host_memory(), &state_) {}

  [[nodiscard]] const ExpertWeights& weights_of(std::int64_t block, std::int64_t expert) const {
    return weights_->tree().block(block).moe.routed[static_cast<std::size_t>(expert)];
  }
  /// As a kernel of `block`: how many rows have the wrong bits.
  int ask(std::uint64_t number, std::int64_t block, const std::vector<Asked>& experts,
          std::int32_t num_tokens) {
    std::vector<test::AskedExpert> asked;
    for (const Asked& one : experts)
      asked.push_back({one.expert, one.place, one.tokens, &weights_of(block, one.expert)});
    return test::wrong_rows(computer_.host(block), number, asked, num_tokens, kLimit, random_);
  }

  static constexpr HostExpertTimes kTimes{
      .fetch_piece = 1000, .compute_expert = 10'000, .compute_row = 1000, .hand_over = 0};

  ThreadPool pool_;
  std::unique_ptr<ModelWeights> weights_;
  std::mt19937 random_{1};
  HostExpertState state_{};
  std::vector<std::int32_t> read_ahead_;  ///< by the thread that answers
  std::atomic<int> num_read_ahead_ = 0, num_on_disk_ = 0, num_acquired_ = 0, num_released_ = 0;
  ExpertComputer computer_;
};

TEST_F(ExpertComputerOf, ComputesTheRowsThatKernelsAskFor) {
  computer_.start(kTimes);
  std::uint64_t number = 0;
  for (std::int64_t block = 0; block < 2; ++block) {
    EXPECT_EQ(ask(++number, block, {{2, 5, {0}}}, 1), 0);
    EXPECT_EQ(ask(++number, block, {{0, 5, {0, 2}}, {1, 6, {1}}, {3, 9, {0, 1, 2}}}, 3), 0);
    std::vector<std::int32_t> all;
    for (std::int32_t token = 0; token < kMaxHostTokens; ++token) all.push_back(token);
    EXPECT_EQ(ask(++number, block, {{1, 5, all}, {2, 6, {63}}}, kMaxHostTokens), 0);
  }
  EXPECT_EQ(computer_.stats().requests, number);
  EXPECT_EQ(num_on_disk_, 0);
  EXPECT_NO_THROW(computer_.check());
}

TEST_F(ExpertComputerOf, ReadsAsMuchOfAGuessAsTheLatestRequestHad) {
  computer_.start(kTimes);
  EXPECT_EQ(ask(1, 0, {{0, 5, {0}}, {1, 6, {0}}}, 1), 0);
  HostExpertGuess& guess = *computer_.host(1).guess;
  guess.count = 3;
  std::ranges::copy(std::vector<std::int32_t>{9, 8, 7}, guess.places);
  // A thread that looks away for long sees a guess only behind the next request.
  std::uint64_t number = 1;
  for (; num_read_ahead_ == 0 && number < 1000; ++number) {
    std::atomic_ref(guess.posted).store(number, std::memory_order_release);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(ask(number + 1, 1, {{2, 7, {0}}, {3, 8, {0}}}, 1), 0);  // whatever was guessed
  }
  EXPECT_EQ(ask(number + 1, 1, {{2, 7, {0}}}, 1), 0);
  ASSERT_GE(read_ahead_.size(), 2U);
  EXPECT_EQ(read_ahead_.size() % 2, 0U);
  for (std::size_t i = 0; i < read_ahead_.size(); ++i) EXPECT_EQ(read_ahead_[i], i % 2 == 0 ? 9 : 8);
}

TEST_F(ExpertComputerOf, AnswersAfterALongPause) {
  computer_.start(kTimes);
  EXPECT_EQ(ask(1, 0, {{2, 5, {0}}}, 1), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  EXPECT_EQ(ask(2, 0, {{1, 5, {0}}}, 1), 0);
}

TEST_F(ExpertComputerOf, HoldsExpertsOnDiskWhileTheyAreRead) {
  computer_.start(kTimes);
  EXPECT_EQ(ask(1, 0, {{0, kOnDisk, {0}}, {1, 4, {0}}, {2, kOnDisk, {1}}}, 2), 0);
  EXPECT_EQ(num_on_disk_, 2);
  EXPECT_EQ(num_acquired_, 2);
  EXPECT_EQ(num_released_, 2);
  // What a disk takes does not say what cores do.
  EXPECT_EQ(computer_.stats().times.compute_expert, kTimes.compute_expert);
}

TEST_F(ExpertComputerOf, CorrectsTheTimesThatKernelsSplitBy) {
  const std::vector<ExpertWeights> some{weights_of(0, 0), weights_of(0, 1)};
  HostExpertTimes measured = computer_.measure(some);
  EXPECT_GT(measured.compute_expert, 0U);
  measured.fetch_piece = 1000;
  computer_.start(measured);
  const ComputedExperts host = computer_.host(0);
  host.request->fetch_ns = 160'000;  // of 16 pieces ten times as long
  host.request->fetch_pieces = 16;
  EXPECT_EQ(ask(1, 0, {{2, 5, {0}}}, 1), 0);
  EXPECT_EQ(ask(2, 0, {{2, 5, {0}}}, 1), 0);  // the first one's times are published behind its answer
  EXPECT_GT(computer_.stats().times.fetch_piece, 1000U);
  computer_.hold({.fetch_piece = 7, .compute_expert = 8, .compute_row = 9, .hand_over = 10});
  EXPECT_EQ(ask(3, 0, {{2, 5, {0}}}, 1), 0);
  EXPECT_EQ(ask(4, 0, {{2, 5, {0}}}, 1), 0);
  EXPECT_EQ(computer_.stats().times.fetch_piece, 7U);
  EXPECT_EQ(computer_.stats().times.hand_over, 10);
}

TEST_F(ExpertComputerOf, AKernelThatWaitedTooLongIsASentence) {
  std::atomic_ref(computer_.host(0).request->given_up).store(1);
  try {
    computer_.check();
    FAIL();
  } catch (const LostDevice& lost) {
    EXPECT_NE(std::string_view(lost.what()).find("cores compute"), std::string_view::npos) << lost.what();
  }
}

TEST(HostExpertRatesOf, AveragesFollowWhatIsSeen) {
  HostExpertRates rates(
      {.fetch_piece = 1000, .compute_expert = 100'000, .compute_row = 10'000, .hand_over = 5});
  for (int i = 0; i < 200; ++i) {
    rates.computed(3, 5, 2 * (3 * 100'000 + 2 * 10'000));
    rates.fetched(10, 15'000);
  }
  const HostExpertTimes times = rates.times();
  EXPECT_NEAR(times.compute_expert, 200'000, 2000);
  EXPECT_NEAR(times.compute_row, 20'000, 200);
  EXPECT_NEAR(times.fetch_piece, 1500, 15);
  EXPECT_EQ(times.hand_over, 5);
  rates.fetched(0, 99);  // nothing was fetched
  EXPECT_EQ(rates.times().fetch_piece, times.fetch_piece);
  // Only what one side does longer than the other counts.
  for (int i = 0; i < 500; ++i) rates.handed_over(20'000), rates.beside_fetch(70'000);
  EXPECT_NEAR(rates.times().hand_over, -50'000, 100);
  // What is not seen any more is taken for what was measured.
  HostExpertRates forgotten = rates;
  for (int i = 0; i < 1000; ++i) forgotten.not_computed(), forgotten.not_fetched();
  EXPECT_NEAR(forgotten.times().compute_expert, 100'000, 100);
  EXPECT_NEAR(forgotten.times().fetch_piece, 1000, 2);
  // One sight moves an average by little, however far it is.
  rates.computed(1, 1, 1e12);
  EXPECT_LT(rates.times().compute_expert, 250'000U);
}

TEST(HostExpertRatesOf, SaysWhatComputingGains) {
  const HostExpertTimes even{
      .fetch_piece = 1000, .compute_expert = 100'000, .compute_row = 0, .hand_over = 0};
  EXPECT_NEAR(gain_of_computing(2, 100, even), 2, 1e-3);
  EXPECT_NEAR(gain_of_computing(1, 100, even), 1, 1e-3);
  HostExpertTimes slow = even;
  slow.compute_expert = 10'000'000;
  EXPECT_EQ(gain_of_computing(6, 100, slow), 1);
}

}  // namespace
}  // namespace baleen
