// Speculation as an engine sees it: drafts that leave nothing behind, and steps that are taken back in part.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512;

const test::RandomCheckpoint& three_layers() {
  static const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  return checkpoint;
}

EngineOptions options(Precision precision, std::int64_t max_draft_tokens = 3) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = 2,
          .max_batch_tokens = 600,
          .max_logit_rows = 600,
          .max_sequences = 3,
          .cache_tokens = 3 * 1024,
          .drafts = true,
          .max_draft_tokens = max_draft_tokens};
}

std::span<const float> row(const std::vector<float>& logits, std::int64_t position) {
  return std::span(logits).subspan(static_cast<std::size_t>(position * kVocab), kVocab);
}

std::vector<float> draft(Engine& engine, SequenceId sequence, TokenId token, std::int64_t depth) {
  const DraftInput input{sequence, token};
  const Result<DraftOutput> output = engine.draft({&input, 1}, depth);
  if (!output) throw std::runtime_error(output.error());
  const auto values = output.value().logits.row(0);
  return {values.begin(), values.end()};
}

class Drafts : public testing::TestWithParam<Precision> {};

TEST_P(Drafts, TheFirstOfAChainIsTheMtpRowThatTheNextStepWouldGive) {
  const std::vector<TokenId> tokens = test::random_tokens(300, kVocab, 1);
  Engine engine(three_layers().path(), options(GetParam()));
  const test::SequenceLogits want = test::run_sequence(engine, tokens, tokens.size());
  for (const std::int64_t length : {1, 7, 255, 256, 257, 299}) {
    const SequenceId sequence = *engine.open({});
    const auto count = static_cast<std::size_t>(length);
    static_cast<void>(test::feed(engine, sequence, std::span(tokens).first(count), 64));
    ASSERT_TRUE(engine.reserve(sequence, 1));
    EXPECT_SAME_BITS(draft(engine, sequence, tokens[count], 0), row(want.mtp, length - 1)) << length;
    engine.close(sequence, false);
  }
}

TEST_P(Drafts, BatchCompositionDoesNotShow) {
  const std::vector<TokenId> tokens = test::random_tokens(280, kVocab, 1);
  Engine engine(three_layers().path(), options(GetParam()));
  std::vector<SequenceId> sequences;
  std::vector<std::vector<float>> alone[3];
  for (const std::size_t length : {20, 255, 280}) {
    sequences.push_back(*engine.open({}));
    static_cast<void>(test::feed(engine, sequences.back(), std::span(tokens).first(length), 600));
    ASSERT_TRUE(engine.reserve(sequences.back(), 4));
    for (TokenId depth = 0; depth < 3; ++depth) {
      alone[depth].push_back(draft(engine, sequences.back(), 10 + depth, depth));
    }
  }
  for (TokenId depth = 0; depth < 3; ++depth) {
    std::vector<DraftInput> inputs;
    for (std::size_t i = 3; i-- > 0;) inputs.push_back({sequences[i], 10 + depth});
    const auto together = engine.draft(inputs, depth);
    ASSERT_TRUE(together);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_SAME_BITS(together.value().logits.row(i), alone[depth][static_cast<std::size_t>(2 - i)]);
    }
  }
}

/// Prompt in chunks, then verify steps: one certain token and some that are right or wrong, behind a chain of
/// drafts or not; what was wrong is taken back. Every certain row is that of a run without speculation.
TEST_P(Drafts, NeitherChainsNorStepsTakenBackShow) {
  Engine engine(three_layers().path(), options(GetParam()));
  EXPECT_TRUE(rc::check([&] {
    const auto prompt = *rc::gen::element<std::size_t>(1, 3, 120, 250, 253, 256, 380, 505);
    const std::size_t end = prompt + 24;
    const std::vector<TokenId> tokens =
        test::random_tokens(static_cast<std::int64_t>(end), kVocab, *rc::gen::arbitrary<std::uint32_t>());
    const test::SequenceLogits want = test::run_sequence(engine, tokens, tokens.size());
    const SequenceId sequence = *engine.open({});
    test::SequenceLogits got = test::feed(engine, sequence, std::span(tokens).first(prompt), 250);
    for (std::size_t fed = prompt; fed < end;) {
      const auto right = std::min(end - fed - 1, *rc::gen::inRange<std::size_t>(0, 4));
      const auto wrong = *rc::gen::inRange<std::size_t>(0, 4 - right);
      std::vector<TokenId> step(tokens.begin() + static_cast<std::ptrdiff_t>(fed),
                                tokens.begin() + static_cast<std::ptrdiff_t>(fed + 1 + right));
      for (std::size_t i = 0; i < wrong; ++i) step.push_back(*rc::gen::inRange<TokenId>(0, kVocab));
      RC_ASSERT(engine.reserve(sequence, static_cast<std::int64_t>(step.size())));
      const auto depth = *rc::gen::inRange<std::int64_t>(0, 4);
      for (std::int64_t d = 0; d < std::min<std::int64_t>(depth, static_cast<std::int64_t>(step.size()));
           ++d) {
        static_cast<void>(draft(engine, sequence, step[static_cast<std::size_t>(d)], d));
      }
      const StepOutput output = test::step(engine, sequence, step);
      const auto certain = static_cast<std::int64_t>(1 + right);
      const std::int64_t mtp_rows = certain - (fed == 0 ? 1 : 0);
      got.append({.logits = output.logits.slice(0, certain),
                  .draft_logits = output.draft_logits.slice(0, mtp_rows)});
      fed += 1 + right;
      engine.truncate(sequence, static_cast<std::int64_t>(fed));
      RC_ASSERT(engine.length(sequence) == static_cast<std::int64_t>(fed));
    }
    engine.close(sequence, false);
    RC_ASSERT(test::bit_difference(got.main, want.main) == "");
    RC_ASSERT(test::bit_difference(got.mtp, want.mtp) == "");
  }));
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, Drafts,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

TEST(DraftFailures, AreSentences) {
  Engine engine(three_layers().path(), options(Precision::kReleased, 2));
  const std::vector<TokenId> tokens = test::random_tokens(256, kVocab, 1);
  const SequenceId sequence = *engine.open({});
  static_cast<void>(test::feed(engine, sequence, tokens, 256));
  const auto failure = [&](TokenId token, std::int64_t depth) {
    const DraftInput input{sequence, token};
    const auto drafted = engine.draft({&input, 1}, depth);
    return drafted ? "" : drafted.error();
  };
  EXPECT_NE(failure(kVocab, 0).find("token id 512 at position 256"), std::string::npos);
  EXPECT_EQ(failure(5, 0), "");  // writes position 255
  EXPECT_NE(failure(5, 1).find("no room in the cache for position 256"), std::string::npos);
  ASSERT_TRUE(engine.reserve(sequence, 1));
  EXPECT_EQ(failure(5, 1), "");
  EXPECT_FALSE(engine.draft({}, 0));
}

TEST(DraftOptions, ImplyTheMtpBlockAndRoomForEveryRow) {
  const ModelConfig config = preset_config("tiny-flash");
  const EngineOptions got = resolved({.max_sequences = 4, .max_draft_tokens = 2}, config);
  EXPECT_TRUE(got.drafts);
  EXPECT_EQ(got.max_logit_rows, 12);
  EXPECT_THROW(static_cast<void>(resolved({.max_draft_tokens = -1}, config)), Error);
  EXPECT_THROW(static_cast<void>(resolved({.max_draft_tokens = 65}, config)), Error);
}

}  // namespace
}  // namespace baleen
