// A token's logits, to the bit, whatever else is in the batch: the rule that prefix caching, preemption and
// greedy speculative decoding lean on.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>

#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

/// Beyond the first page, also when its window rows are given back (at 384), and far more entries than top-k.
constexpr std::int64_t kNumTokens = 390;

const test::RandomCheckpoint& tiny_flash() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

EngineOptions options(Precision precision, int num_threads, std::int64_t max_sequences = 1) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = num_threads,
          .max_batch_tokens = 512,
          .max_logit_rows = 512,
          .max_sequences = max_sequences,
          .cache_tokens = 512 * max_sequences,
          .drafts = true};
}

void expect_same(const test::SequenceLogits& got, const test::SequenceLogits& want, const std::string& how) {
  EXPECT_SAME_BITS(got.main, want.main) << how;
  EXPECT_SAME_BITS(got.mtp, want.mtp) << how << ", MTP";
}

class BatchInvariance : public testing::TestWithParam<Precision> {};

TEST_P(BatchInvariance, ChunksAndThreadsDoNotShow) {
  const std::vector<TokenId> tokens = test::random_tokens(kNumTokens, 512, 1);
  std::optional<test::SequenceLogits> whole;
  for (const int num_threads : {2, 1}) {
    Engine engine(tiny_flash().path(), options(GetParam(), num_threads));
    for (const std::size_t chunk : {390, 1, 7, 64, 256}) {
      if (num_threads == 1 && chunk == 1) continue;  // half of the time, and the most like chunks of 7
      const test::SequenceLogits logits = test::run_sequence(engine, tokens, chunk);
      if (!whole) {
        whole = logits;
        ASSERT_EQ(whole->main.size(), 390u * 512);
        ASSERT_EQ(whole->mtp.size(), 389u * 512);
      }
      expect_same(logits, *whole, fmt::format("chunks of {}, {} threads", chunk, num_threads));
    }
  }
}

/// Eight sequences of different lengths, begun at different steps and cut at random; those that are over make
/// room for others, in the slots and pages they leave.
TEST_P(BatchInvariance, BatchCompositionDoesNotShow) {
  const std::vector<TokenId> tokens = test::random_tokens(kNumTokens, 512, 1);
  Engine alone(tiny_flash().path(), options(GetParam(), 1));
  const test::SequenceLogits want = test::run_sequence(alone, tokens, kNumTokens);

  constexpr std::size_t kOthers = 7;
  Engine engine(tiny_flash().path(), options(GetParam(), 2, kOthers + 1));
  std::mt19937 random(3);
  struct Other {
    SequenceId id;
    std::vector<TokenId> tokens;
    std::size_t fed = 0;
  };
  std::vector<Other> others;
  const SequenceId sequence = *engine.open({});
  test::SequenceLogits got;
  std::uint32_t num_opened = 0;
  for (std::size_t fed = 0; fed < tokens.size();) {
    while (others.size() < kOthers && random() % 2 == 0) {
      others.push_back({*engine.open({}), test::random_tokens(1 + random() % 400, 512, 100 + num_opened++)});
    }
    const std::size_t count =
        std::min<std::size_t>(random() % 3 == 0 ? 1 : 1 + random() % 40, tokens.size() - fed);
    std::vector<StepInput> inputs;
    for (Other& other : others) {
      if (random() % 4 == 0) continue;  // not in this step
      const std::size_t part =
          std::min<std::size_t>(random() % 2 == 0 ? 1 : 1 + random() % 60, other.tokens.size() - other.fed);
      inputs.push_back({other.id, std::span(other.tokens).subspan(other.fed, part), WantedLogits::kNone});
      other.fed += part;
    }
    inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(random() % (inputs.size() + 1)),
                  {sequence, std::span(tokens).subspan(fed, count), WantedLogits::kAll});
    const Result<StepOutput> output = engine.step(inputs);
    ASSERT_TRUE(output) << output.error();
    got.append(output.value());
    fed += count;
    std::erase_if(others, [&](const Other& other) {
      if (other.fed < other.tokens.size()) return false;
      engine.close(other.id, false);
      return true;
    });
  }
  EXPECT_GT(num_opened, 8u);  // slots were used again
  expect_same(got, want, "beside seven others");
}

/// Recycled pages and slots hold what others left there.
TEST_P(BatchInvariance, WhatOthersLeftInTheCacheDoesNotShow) {
  const std::vector<TokenId> tokens = test::random_tokens(140, 512, 1),
                             other = test::random_tokens(500, 512, 2);
  Engine engine(tiny_flash().path(), options(GetParam(), 2));
  const test::SequenceLogits fresh = test::run_sequence(engine, tokens, 64);
  static_cast<void>(test::run_sequence(engine, other, 512));
  expect_same(test::run_sequence(engine, tokens, 64), fresh, "after another");
  // A sequence shorter than any block leaves rings that are hardly written.
  static_cast<void>(test::run_sequence(engine, std::span(other).first(2), 1));
  expect_same(test::run_sequence(engine, tokens, 1), fresh, "after a short one");
}

TEST_P(BatchInvariance, WhatIsWantedDoesNotShow) {
  const std::vector<TokenId> tokens = test::random_tokens(60, 512, 1);
  Engine engine(tiny_flash().path(), options(GetParam(), 2));
  const test::SequenceLogits all = test::run_sequence(engine, tokens, 60);
  const SequenceId sequence = *engine.open({});
  EXPECT_TRUE(test::step(engine, sequence, std::span(tokens).first(59), WantedLogits::kNone).logits.empty());
  const StepOutput last = test::step(engine, sequence, std::span(tokens).last(1), WantedLogits::kLast);
  EXPECT_SAME_BITS(last.logits.row(0), std::span(all.main).last(512));
  EXPECT_TRUE(last.draft_logits.empty());
}

TEST_P(BatchInvariance, AnyCutsOfAnyTwoSequencesDoNotShow) {
  const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  Engine engine(checkpoint.path(), options(GetParam(), 2, 2));
  EXPECT_TRUE(rc::check([&] {
    struct Fed {
      std::vector<TokenId> tokens;
      test::SequenceLogits got;
      SequenceId id{};
      std::size_t fed = 0;
    };
    std::vector<Fed> both(2);
    for (Fed& one : both) {
      one.tokens = test::random_tokens(*rc::gen::inRange<std::int64_t>(1, 400), 512,
                                       *rc::gen::arbitrary<std::uint32_t>());
      one.id = *engine.open({});
    }
    while (std::ranges::any_of(both, [](const Fed& one) { return one.fed < one.tokens.size(); })) {
      std::vector<StepInput> inputs;
      std::vector<Fed*> fed;
      for (Fed& one : both) {
        const std::size_t left = one.tokens.size() - one.fed;
        const auto count = std::min(left, *rc::gen::element<std::size_t>(0, 1, 1, 3, 4, 5, 127, 128, 129));
        if (count == 0) continue;
        inputs.push_back({one.id, std::span(one.tokens).subspan(one.fed, count), WantedLogits::kAll});
        fed.push_back(&one);
      }
      if (inputs.empty()) continue;
      const Result<StepOutput> output = engine.step(inputs);
      RC_ASSERT(output.ok());
      std::int64_t row = 0, mtp_row = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto count = static_cast<std::int64_t>(inputs[i].tokens.size());
        const std::int64_t num_mtp = fed[i]->fed == 0 ? count - 1 : count;
        fed[i]->got.append({.logits = output.value().logits.slice(row, row + count),
                            .draft_logits = output.value().draft_logits.slice(mtp_row, mtp_row + num_mtp)});
        fed[i]->fed += inputs[i].tokens.size();
        row += count;
        mtp_row += num_mtp;
      }
    }
    for (const Fed& one : both) engine.close(one.id, false);
    for (const Fed& one : both) {
      const test::SequenceLogits want = test::run_sequence(engine, one.tokens, one.tokens.size());
      RC_ASSERT(test::bit_difference(one.got.main, want.main) == "");
      RC_ASSERT(test::bit_difference(one.got.mtp, want.mtp) == "");
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, BatchInvariance,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

/// The released head geometry, whose kernels have shapes of their own, and the trained model.
TEST(BatchInvarianceOfOtherModels, ChunksAndThreadsDoNotShow) {
  const test::RandomCheckpoint real_heads("tiny-real-heads", 2);
  for (const std::filesystem::path& model : {real_heads.path(), std::filesystem::path("models/stories")}) {
    std::optional<test::SequenceLogits> whole;
    for (const int num_threads : {1, 2}) {
      Engine engine(model, options(Precision::kReleased, num_threads));
      const std::vector<TokenId> tokens = test::random_tokens(270, engine.config().vocab_size, 1);
      for (const std::size_t chunk : {270, 7}) {
        const test::SequenceLogits logits = test::run_sequence(engine, tokens, chunk);
        if (!whole) whole = logits;
        expect_same(logits, *whole,
                    fmt::format("{}: chunks of {}, {} threads", model.string(), chunk, num_threads));
      }
    }
  }
}

}  // namespace
}  // namespace baleen
