// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/hc_pre/hc_pre.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 4096;

HcPreArgs entry(ElementType type) {
  return {.streams = test::unread<3>({kRows, 4, kWidth}, type),
          .weights = {{test::nowhere<const float>(), {24, 4 * kWidth}},
                      test::unread_span<const float>(24),
                      test::unread_span<const float>(3)},
          .u = test::unread<2>({kRows, kWidth}, type),
          .post = test::unread_f32<2>({kRows, 4}),
          .comb = test::unread_f32<3>({kRows, 4, 4})};
}

TEST(HcPreCost, CountsProductsSinkhornAndTheSum) {
  const OpCost cost = hc_pre_cost(entry(ElementType::kBf16));
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kF32)], 192 * kWidth * kRows);
  EXPECT_EQ(cost.matrix_flops(), 192 * kWidth * kRows);
  EXPECT_EQ(cost.scalar_ops, (16 * kWidth + 1443) * kRows);
  EXPECT_EQ(cost.weight_bytes, 384 * kWidth + 108);
  EXPECT_EQ(cost.total_bytes(), 8 * kWidth * kRows + 384 * kWidth + 108 + 2 * kWidth * kRows + 80 * kRows);
}

TEST(HcPreCost, Float32StreamsAreTwiceAsManyBytes) {
  const OpCost cost = hc_pre_cost(entry(ElementType::kF32));
  EXPECT_EQ(cost.total_bytes(), 16 * kWidth * kRows + 384 * kWidth + 108 + 4 * kWidth * kRows + 80 * kRows);
}

TEST(HcPreCost, FusedWithItsNormSavesTheVectorInBetween) {
  const HcPreArgs pre = entry(ElementType::kBf16);
  const RmsNormArgs norm{.x = pre.u, .weight = test::unread_span<const float>(kWidth), .y = pre.u};
  const OpCost fused = hc_pre_norm_cost(pre, norm);
  EXPECT_EQ(fused.total_bytes(), hc_pre_cost(pre).total_bytes() + 2 * kWidth);
  EXPECT_EQ(fused.total_flops(), hc_pre_cost(pre).total_flops() + 4 * kWidth * kRows);
}

}  // namespace
}  // namespace baleen
