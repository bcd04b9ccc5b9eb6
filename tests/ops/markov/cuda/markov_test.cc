// The Markov head on the GPU against the reference, and that rows beside do not show in its bits.
#include "ops/markov/cuda/markov.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/markov_problem.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::MarkovProblem;

/// Rows [begin, end) of the problem, which follow `first_row` others in the step's batch; logits' rows are
/// `gap` values further apart than they are long, as those of a block of drafts are.
MarkovProblem::Result run(const MarkovProblem& problem, std::int64_t begin, std::int64_t end,
                          bool wants_confidence, std::int64_t first_row = 0, std::int64_t gap = 0) {
  test::TestCuda cuda;
  const std::int64_t num_rows = end - begin, stride = problem.vocabulary + gap;
  std::vector<TokenId> tokens(static_cast<std::size_t>(first_row), 1);
  tokens.insert(tokens.end(), problem.tokens.begin() + begin, problem.tokens.begin() + end);
  const std::vector<SequenceSlice> slices{{.num_tokens = std::ssize(tokens)}};
  cuda.set_batch({tokens, slices});
  std::vector<float> spread(static_cast<std::size_t>(num_rows * stride), 7.0F);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::copy_n(problem.logits.begin() + (begin + row) * problem.vocabulary, problem.vocabulary,
                spread.begin() + row * stride);
  }
  auto* const logits = cuda.upload(spread);
  WeightMatrix w2 = problem.w2.matrix();
  w2.data = cuda.upload(std::span(w2.data, static_cast<std::size_t>(w2.size_bytes())));
  const auto hidden = std::span(problem.hidden)
                          .subspan(static_cast<std::size_t>(begin * problem.width),
                                   static_cast<std::size_t>(num_rows * problem.width));
  auto* const confidence = cuda.allocate<float>(num_rows);
  MarkovArgs args{.tokens = std::span(tokens).subspan(static_cast<std::size_t>(first_row)),
                  .first_row = first_row,
                  .w1 = {cuda.upload(problem.w1), {MarkovProblem::kTokens, problem.rank}},
                  .w2 = &w2,
                  .logits = Activations<2>(logits, {num_rows, problem.vocabulary}, {stride, 1})};
  if (wants_confidence) {
    args.hidden = View<const Bf16Bits, 2>(cuda.upload_bf16(hidden), {num_rows, problem.width});
    args.confidence_weight = {cuda.upload(problem.confidence_weight), problem.confidence_weight.size()};
    args.confidence = {confidence, static_cast<std::size_t>(num_rows)};
  }
  ops::Markov::check(args);
  (why_not_products(args) ? markov_any : markov_products)(args, cuda.context());
  cuda.synchronise();
  MarkovProblem::Result result;
  const std::vector<float> got = cuda.download(logits, num_rows * stride);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const auto from = got.begin() + row * stride;
    result.logits.insert(result.logits.end(), from, from + problem.vocabulary);
    for (std::int64_t i = problem.vocabulary; i < stride; ++i) EXPECT_EQ(from[i], 7.0F);
  }
  if (wants_confidence) result.confidence = cuda.download(confidence, num_rows);
  return result;
}

TEST(MarkovOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rank, vocabulary, width] :
       {std::array<std::int64_t, 3>{8, 203, 64}, std::array<std::int64_t, 3>{136, 1'000, 512},
        std::array<std::int64_t, 3>{256, 1'003, 4'096}, std::array<std::int64_t, 3>{256, 40'000, 4'096},
        std::array<std::int64_t, 3>{512, 9'000, 7'168}}) {
    for (const std::int64_t num_rows : {0, 1, 2, 8, 9, 64, 70}) {
      const MarkovProblem problem(rank, vocabulary, width, num_rows);
      for (const bool wants_confidence : {false, true}) {
        const MarkovProblem::Result want = problem.want(wants_confidence);
        const MarkovProblem::Result got = run(problem, 0, num_rows, wants_confidence);
        // Low bits that tensor cores cut, see ops/matmul/cuda/matmul_bf16_test.cc.
        EXPECT_CLOSE(got.logits, want.logits, {.norm = 1e-5})
            << "rank " << rank << ", " << vocabulary << " outputs, " << num_rows << " rows";
        EXPECT_CLOSE(got.confidence, want.confidence, {.norm = 2e-6})
            << "rank " << rank << ", " << num_rows << " rows";
      }
    }
  }
}

TEST(MarkovOnGpu, RowsBesideAndTheirPlaceDoNotShow) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t rank : {8, 256}) {
    const MarkovProblem problem(rank, 9'001, 512, 200);
    const MarkovProblem::Result all = run(problem, 0, 200, true);
    for (const auto& [begin, end] :
         {std::pair<std::int64_t, std::int64_t>{0, 1}, {63, 65}, {60, 77}, {150, 200}}) {
      for (const std::int64_t gap : {0, 40}) {
        const MarkovProblem::Result part = run(problem, begin, end, true, begin % 7, gap);
        EXPECT_SAME_BITS(part.logits,
                         std::span(all.logits)
                             .subspan(static_cast<std::size_t>(begin * problem.vocabulary),
                                      static_cast<std::size_t>((end - begin) * problem.vocabulary)))
            << "rank " << rank << ", rows from " << begin;
        EXPECT_SAME_BITS(part.confidence, std::span(all.confidence)
                                              .subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end - begin)));
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
