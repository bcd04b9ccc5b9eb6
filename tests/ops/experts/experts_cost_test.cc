// Costs: the specification's formulas; that weights count once for each expert that has an assignment.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/experts/experts.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kWidth = 4096, kInner = 2048, kExperts = 256, kSelected = 6;
constexpr double kExpertBytes = 13'369'344;  // B_e of Flash
constexpr double kSharedBytes = 3.0 * kWidth * kInner + 3 * 32 * 16;
constexpr auto kFp8 = static_cast<std::size_t>(MathFormat::kFp8);

/// Flash's experts, over `rows` tokens.
class Layer {
 public:
  explicit Layer(std::int64_t rows) {
    args_ = {.x = test::unread_bf16<2>({rows, kWidth}),
             .x_fp8 = test::unread_fp8_rows(),
             .ids = {test::nowhere<const std::int32_t>(), {rows, kSelected}},
             .weights = test::unread_f32<2>({rows, kSelected}),
             .routed = routed_,
             .shared = &shared_,
             .out = test::unread_bf16<2>({rows, kWidth})};
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ExpertsArgs& args() { return args_; }

 private:
  static ExpertWeights expert(WeightFormat format) {
    return {.w1 = test::unread_weight(format, kInner, kWidth),
            .w2 = test::unread_weight(format, kWidth, kInner),
            .w3 = test::unread_weight(format, kInner, kWidth)};
  }
  std::vector<ExpertWeights> routed_{kExperts, expert(WeightFormat::kFp4)};
  ExpertWeights shared_ = expert(WeightFormat::kFp8);
  ExpertsArgs args_;
};

TEST(ExpertsCost, RoutedRowsAndDistinctExperts) {
  const OpCost cost = routed_experts_cost(Layer(1).args(), 100, 40);
  EXPECT_EQ(cost.flops[kFp8], 6.0 * kWidth * kInner * 100);
  EXPECT_EQ(cost.matrix_flops(), 6.0 * kWidth * kInner * 100);
  EXPECT_EQ(cost.scalar_ops, 14 * kInner * 100);
  EXPECT_EQ(cost.weight_bytes, 40 * kExpertBytes);
  EXPECT_EQ(cost.total_bytes(), (kWidth + kWidth / 128) * 100 + 40 * kExpertBytes + 2 * kWidth * 100);
}

TEST(ExpertsCost, WhoeverQuantisesCountsIt) {
  Layer layer(1);
  layer.args().x_fp8 = {};
  EXPECT_EQ(routed_experts_cost(layer.args(), 100, 40).scalar_ops, (14 * kInner + 4 * kWidth) * 100);
}

TEST(ExpertsCost, SharedExpertAndCombine) {
  Layer layer(1);
  const OpCost shared = shared_expert_cost(layer.args(), 7);
  EXPECT_EQ(shared.flops[kFp8], 6.0 * kWidth * kInner * 7);
  EXPECT_EQ(shared.scalar_ops, 14 * kInner * 7);
  EXPECT_EQ(shared.total_bytes(), 2 * kWidth * 7 + kSharedBytes + 2 * kWidth * 7);
  const OpCost combine = combine_cost(layer.args(), kSelected * 7, 7);
  EXPECT_EQ(combine.scalar_ops, (kSelected + 1) * kWidth * 7);
  EXPECT_EQ(combine.total_bytes(), (2 * kSelected + 2 + 2) * kWidth * 7);
  layer.args().shared = nullptr;
  EXPECT_EQ(shared_expert_cost(layer.args(), 7).total_bytes(), 0);
  EXPECT_EQ(combine_cost(layer.args(), kSelected * 7, 7).scalar_ops, kSelected * kWidth * 7);
}

TEST(ExpertsCost, ByIdsCountsActiveExpertsOnce) {
  Layer layer(3);
  // The third token is padding.
  const std::vector<std::int32_t> ids{0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 255, -1, -1, -1, -1, -1, -1};
  layer.args().ids = {ids.data(), {3, kSelected}};
  const OpCost cost = experts_cost(layer.args()), want = experts_cost_of(layer.args(), 12, 7);
  EXPECT_EQ(cost.weight_bytes, 7 * kExpertBytes + kSharedBytes);
  EXPECT_EQ(cost.total_bytes(), want.total_bytes());
  EXPECT_EQ(cost.flops[kFp8], 6.0 * kWidth * kInner * (12 + 3));
}

TEST(ExpertsCost, ExpectedOneTokenHasKExperts) {
  const OpCost cost = expected_experts_cost(Layer(1).args());
  EXPECT_EQ(cost.weight_bytes, kSelected * kExpertBytes + kSharedBytes);
}

// However many tokens come, no more weights are read than there are.
TEST(ExpertsCost, ExpectedManyTokensReadEachExpertOnce) {
  const OpCost cost = expected_experts_cost(Layer(8192).args());
  EXPECT_DOUBLE_EQ(cost.weight_bytes, kExperts * kExpertBytes + kSharedBytes);
  constexpr double kRows = 8192, kAssignments = kRows * kSelected;
  EXPECT_EQ(cost.flops[kFp8], 6.0 * kWidth * kInner * (kAssignments + kRows));
  const double moved = (kWidth + kWidth / 128) * kAssignments +
                       2 * kWidth * kAssignments                   // to and from the routed
                       + 4 * kWidth * kRows                        // the shared one
                       + 2 * kWidth * (kAssignments + 2 * kRows);  // their sum
  EXPECT_DOUBLE_EQ(cost.total_bytes(), kExperts * kExpertBytes + kSharedBytes + moved);
}

TEST(ExpertsCost, ExpectedInBetween) {
  EXPECT_DOUBLE_EQ(expected_experts_cost(Layer(64).args()).weight_bytes,
                   kExperts * (1 - std::pow(1 - 6.0 / 256, 64)) * kExpertBytes + kSharedBytes);
}

}  // namespace
}  // namespace baleen
