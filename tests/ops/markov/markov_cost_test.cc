// Costs against formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/markov/markov.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(MarkovCost, TheMatrixOnceAndLogitsTwice) {
  constexpr std::int64_t kRows = 3, kRank = 256, kVocab = 129280, kWidth = 4096;
  const WeightMatrix w2 = test::unread_weight(WeightFormat::kBF16, kVocab, kRank);
  MarkovArgs args{.tokens = test::unread_span<const TokenId>(kRows),
                  .w1 = {test::nowhere<const Bf16Bits>(), {kVocab, kRank}},
                  .w2 = &w2,
                  .logits = test::unread_f32<2>({kRows, kVocab})};
  const double without = 2.0 * kRank * kVocab + (2.0 * kRank + 4) * kRows + 8.0 * kVocab * kRows;
  OpCost cost = markov_cost(args);
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kBF16)], 2.0 * kRank * kVocab * kRows);
  EXPECT_EQ(cost.scalar_ops, 1.0 * kVocab * kRows);
  EXPECT_EQ(cost.weight_bytes, 2.0 * kRank * kVocab);
  EXPECT_EQ(cost.total_bytes(), without);

  args.hidden = test::unread_bf16<2>({kRows, kWidth});
  args.confidence_weight = test::unread_span<const float>(kWidth + kRank);
  args.confidence = test::unread_span<float>(kRows);
  cost = markov_cost(args);
  EXPECT_EQ(cost.scalar_ops, 1.0 * kVocab * kRows + 2.0 * (kWidth + kRank) * kRows);
  EXPECT_EQ(cost.total_bytes(), without + 2.0 * kWidth * kRows + 2.0 * (kWidth + kRank) + 4.0 * kRows);
}

TEST(MarkovCost, NothingForNoRows) {
  const WeightMatrix w2 = test::unread_weight(WeightFormat::kBF16, 100, 8);
  EXPECT_EQ(markov_cost({.w1 = {test::nowhere<const Bf16Bits>(), {100, 8}},
                         .w2 = &w2,
                         .logits = test::unread_f32<2>({0, 100})})
                .total_bytes(),
            0);
}

}  // namespace
}  // namespace baleen
