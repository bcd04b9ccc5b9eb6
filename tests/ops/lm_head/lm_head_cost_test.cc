// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/lm_head/lm_head.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(LmHeadCost, Bf16WeightsAndFloat32Logits) {
  constexpr std::int64_t kRows = 3, kWidth = 4096, kVocab = 129280;
  const WeightMatrix weight = test::unread_weight(WeightFormat::kBF16, kVocab, kWidth);
  const OpCost cost = lm_head_cost({.x = test::unread_bf16<2>({kRows, kWidth}),
                                    .weight = &weight,
                                    .logits = test::unread_f32<2>({kRows, kVocab})});
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kBF16)], 2.0 * kWidth * kVocab * kRows);
  EXPECT_EQ(cost.total_bytes(), 2.0 * kWidth * kRows + 2.0 * kWidth * kVocab + 4.0 * kVocab * kRows);
}

}  // namespace
}  // namespace baleen
