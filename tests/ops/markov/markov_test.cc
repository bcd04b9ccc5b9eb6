// The Markov head: by hand, vectors against the reference, and that neither rows, threads nor parts of the
// vocabulary show in the bits.
#include "ops/markov/markov.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/markov_problem.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::MarkovProblem;

class MarkovByHand : public testing::TestWithParam<test::Kernels> {};

TEST_P(MarkovByHand, AddsTheTokensRowAndSaysHowSureItIs) {
  const auto bf16 = [](const std::vector<float>& values) {
    std::vector<Bf16Bits> bits;
    for (const float value : values) bits.push_back(float_to_bf16(value));
    return bits;
  };
  const auto w1 = bf16({1, 2, 0, 0, 0, 0, 0, 0,  //
                        0, 0, 0, 0, 0, 0, 0, 3});
  const auto w2 = bf16({1, 1, 1, 1, 1, 1, 1, 1,  //
                        0, 5, 0, 0, 0, 0, 0, 0,  //
                        0, 0, 0, 0, 0, 0, 0, 7});
  const WeightMatrix matrix{WeightFormat::kBF16, 3, 8, reinterpret_cast<const std::byte*>(w2.data())};
  const std::vector<TokenId> tokens{1, 0};
  std::vector<float> logits{10, 20, 30, 100, 200, 300};
  const std::vector<float> hidden{4, 5, 6, 7}, weight{1, 10, 0.5, 0.25, 0, 0, 0, 0, 0, 2};
  std::vector<float> confidence(2);
  MarkovArgs args{.tokens = tokens,
                  .w1 = {w1.data(), {2, 8}},
                  .w2 = &matrix,
                  .logits = {logits.data(), {2, 3}},
                  .hidden = {hidden.data(), {2, 2}},
                  .confidence_weight = weight,
                  .confidence = confidence};
  test::TestCpu(1, 0, GetParam()).run<ops::Markov>(args);
  EXPECT_EQ(logits, (std::vector<float>{13, 20, 51, 103, 210, 300}));
  EXPECT_EQ(confidence, (std::vector<float>{4 + 50 + 6, 6 + 70 + 1}));

  args.confidence_weight = {};
  args.confidence = {};
  args.hidden = {};
  test::TestCpu(1, 0, GetParam()).run<ops::Markov>(args);
  EXPECT_EQ(logits, (std::vector<float>{16, 20, 72, 106, 220, 300}));
}

TEST_P(MarkovByHand, NoRowsIsANoOp) {
  const MarkovProblem problem(8, 20, 16, 0);
  MarkovProblem::Result result;
  test::TestCpu(1, 0, GetParam()).run<ops::Markov>(problem.args(result));
}

INSTANTIATE_TEST_SUITE_P(BothKernels, MarkovByHand, testing::Values(test::kReference, test::kBest));

class Markov : public test::EveryTarget {};

TEST_P(Markov, AgreesWithTheReference) {
  for (const std::int64_t rank : {8, 24, 256, 512}) {
    for (const std::int64_t num_rows : {1, 3, 70}) {
      const MarkovProblem problem(rank, 203, 130, num_rows);
      const MarkovProblem::Result want = problem.want();
      MarkovProblem::Result got{problem.logits, std::vector<float>(problem.tokens.size())};
      test::TestCpu(2).run<ops::Markov>(problem.args(got));
      EXPECT_CLOSE(got.logits, want.logits, {.norm = 2e-6}) << "rank " << rank << ", " << num_rows << " rows";
      EXPECT_CLOSE(got.confidence, want.confidence, {.norm = 2e-6})
          << "rank " << rank << ", " << num_rows << " rows";
    }
  }
}

TEST_P(Markov, RowsThreadsAndPartsOfTheVocabularyDoNotShow) {
  const MarkovProblem problem(256, 1'003, 130, 9);
  const auto run = [&](std::int64_t begin, std::int64_t end, std::int64_t first_output,
                       std::int64_t last_output, int num_threads) {
    const std::int64_t num_rows = end - begin, num_outputs = last_output - first_output;
    MarkovProblem::Result result{{}, std::vector<float>(static_cast<std::size_t>(num_rows))};
    MarkovArgs args = problem.args(result);
    args.tokens = args.tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(num_rows));
    args.hidden = args.hidden.slice(begin, end);
    const WeightMatrix part = args.w2->slice_rows(first_output, last_output);
    args.w2 = &part;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto from = problem.logits.begin() + row * problem.vocabulary;
      result.logits.insert(result.logits.end(), from + first_output, from + last_output);
    }
    args.logits = {result.logits.data(), {num_rows, num_outputs}};
    test::TestCpu(num_threads).run<ops::Markov>(args);
    return result;
  };
  const MarkovProblem::Result all = run(0, 9, 0, problem.vocabulary, 1);
  EXPECT_SAME_BITS(run(0, 9, 0, problem.vocabulary, 3).logits, all.logits);
  for (const std::int64_t row : {0, 4, 8}) {
    const MarkovProblem::Result one = run(row, row + 1, 0, problem.vocabulary, 2);
    EXPECT_SAME_BITS(one.logits, std::span(all.logits).subspan(static_cast<std::size_t>(row * 1'003), 1'003));
    EXPECT_EQ(one.confidence[0], all.confidence[static_cast<std::size_t>(row)]);
    EXPECT_SAME_BITS(run(row, row + 1, 13, 500, 2).logits,
                     std::span(all.logits).subspan(static_cast<std::size_t>(row * 1'003 + 13), 487));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Markov, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
