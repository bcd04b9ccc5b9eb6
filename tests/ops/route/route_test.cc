#include "ops/route/route.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::random_values;
using test::TestCpu;

constexpr RouteScoring kScorings[] = {RouteScoring::kSqrtSoftplus, RouteScoring::kSigmoid,
                                      RouteScoring::kSoftmax};

class Route : public test::EveryTarget {};

/// Owns logits, bias and results of T tokens, E experts, k of them chosen.
struct Problem {
  Problem(std::int64_t num_rows, std::int64_t num_experts, std::int64_t num_selected)
      : rows(num_rows), experts(num_experts), selected(num_selected) {
    logits = random_values(static_cast<std::size_t>(rows * experts), 1, 2.0F);
    bias = random_values(static_cast<std::size_t>(experts), 2, 0.1F);
    ids.assign(static_cast<std::size_t>(rows * selected), -99);
    weights.assign(ids.size(), -99.0F);
  }
  RouteArgs args(RouteScoring scoring = RouteScoring::kSqrtSoftplus) {
    return {.logits = {logits.data(), {rows, experts}},
            .scoring = scoring,
            .scale = 1.5F,
            .bias = bias,
            .ids = {ids.data(), {rows, selected}},
            .weights = {weights.data(), {rows, selected}}};
  }

  std::int64_t rows, experts, selected;
  std::vector<float> logits, bias, weights;
  std::vector<std::int32_t> ids;
};

void run(const RouteArgs& args, int num_threads = 1) {
  TestCpu cpu(num_threads, route_scratch_bytes(args.logits.extent(1), num_threads));
  cpu.run<ops::Route>(args);
}

TEST(RouteReference, ScoresByHand) {
  Problem problem(1, 4, 4);
  problem.logits = {30.0F, 0.0F, std::log(3.0F), -1.0F};
  problem.bias.clear();
  RouteArgs args = problem.args();
  args.normalise = false;
  args.scale = 1.0F;
  route_ref(args);
  EXPECT_EQ(problem.ids, (std::vector<std::int32_t>{0, 2, 1, 3}));
  // sqrt(30), sqrt(ln 4), sqrt(ln 2) = 0.832554611 (source: forward pass 14), sqrt(ln(1 + 1/e))
  EXPECT_CLOSE(problem.weights, (std::vector<float>{5.477226F, 1.177410F, 0.832554611F, 0.5596979F}),
               {.relative = 2e-6});
  args.scoring = RouteScoring::kSigmoid;
  route_ref(args);
  EXPECT_CLOSE(problem.weights, (std::vector<float>{1.0F, 0.75F, 0.5F, 0.268941421F}), {.relative = 1e-6});
  problem.logits = {0.0F, std::log(2.0F), 0.0F, 0.0F};
  args.scoring = RouteScoring::kSoftmax;
  route_ref(args);
  EXPECT_EQ(problem.ids, (std::vector<std::int32_t>{1, 0, 2, 3}));
  EXPECT_CLOSE(problem.weights, (std::vector<float>{0.4F, 0.2F, 0.2F, 0.2F}), {.relative = 1e-6});
}

TEST(RouteReference, WeightsSumToTheScaleAndComeFromUnbiasedScores) {
  Problem problem(1, 3, 2);
  problem.logits = {0.0F, 0.0F, 5.0F};
  problem.bias = {0.0F, 10.0F, -10.0F};
  route_ref(problem.args(RouteScoring::kSigmoid));
  EXPECT_EQ(problem.ids, (std::vector<std::int32_t>{1, 0}));
  EXPECT_CLOSE(problem.weights, (std::vector<float>{0.75F, 0.75F}), {.relative = 1e-6});
}

TEST(RouteReference, GroupsAreRankedByTheirTwoBest) {
  Problem problem(1, 6, 2);  // sigmoid is monotone: the logits' order is the scores'
  problem.logits = {9, -9, -9, /**/ 2, 3, -9};
  problem.bias.clear();
  RouteArgs args = problem.args(RouteScoring::kSigmoid);
  args.num_groups = 2;
  args.num_groups_kept = 1;
  route_ref(args);  // 1 + 0 against 0.95 + 0.88
  EXPECT_EQ(problem.ids, (std::vector<std::int32_t>{4, 3}));
}

/// Both variants on the same problem.
void expect_as_reference(RouteArgs args, Problem& problem, const std::string& where) {
  std::vector<std::int32_t> want_ids(problem.ids.size());
  std::vector<float> want(problem.weights.size());
  run(args);
  args.ids = {want_ids.data(), {problem.rows, problem.selected}};
  args.weights = {want.data(), {problem.rows, problem.selected}};
  route_ref(args);
  EXPECT_EQ(problem.ids, want_ids) << where;
  EXPECT_CLOSE(problem.weights, want, {.relative = 1e-6}) << where;
}

TEST_P(Route, AgreesWithTheReference) {
  struct Shape {
    std::int64_t rows, experts, selected;
    int groups, kept;
  };
  for (const Shape& shape : {Shape{0, 8, 2, 1, 1},
                             {1, 1, 1, 1, 1},
                             {3, 7, 7, 1, 1},
                             {5, 37, 3, 1, 1},
                             {40, 256, 6, 1, 1},
                             {20, 384, 6, 1, 1},
                             {20, 256, 8, 8, 4},
                             {20, 36, 4, 9, 2},
                             {10, 16, 3, 16, 5},
                             {10, 24, 6, 4, 4}}) {
    for (const RouteScoring scoring : kScorings) {
      for (const bool normalise : {true, false}) {
        Problem problem(shape.rows, shape.experts, shape.selected);
        RouteArgs args = problem.args(scoring);
        args.normalise = normalise;
        args.num_groups = shape.groups;
        args.num_groups_kept = shape.kept;
        expect_as_reference(args, problem, std::to_string(shape.experts) + " experts");
        args.bias = {};
        expect_as_reference(args, problem, std::to_string(shape.experts) + " experts, no bias");
      }
    }
  }
}

TEST_P(Route, WhatIsAddedToTheSumCountsWhereScoresVanish) {
  // sqrt(softplus(-92)) = 1.05e-20: by 1e-20 two such experts have a third of the weight less.
  Problem problem(1, 8, 2);
  problem.logits.assign(8, -92.0F);
  problem.bias.assign(8, 0.0F);
  RouteArgs args = problem.args();
  args.scale = 1.0F;
  args.sum_eps = 1e-20F;
  expect_as_reference(args, problem, "tiny scores");
  const double score = std::exp(-46.0);
  EXPECT_NEAR(problem.weights[0], score / (2 * score + 1e-20), 1e-4);
  args.sum_eps = 0.0F;
  expect_as_reference(args, problem, "the sum as it is");
  EXPECT_NEAR(problem.weights[0], 0.5, 1e-6);
}

TEST_P(Route, TiesGoToTheLowerId) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    Problem problem(4, 48, 6);
    for (float& z : problem.logits) z = static_cast<float>(random() % 3);
    problem.bias.assign(48, 0.0F);
    RouteArgs args = problem.args();
    args.num_groups = 1 + static_cast<int>(random() % 2) * 7;
    args.num_groups_kept = args.num_groups == 1 ? 1 : 3;
    expect_as_reference(args, problem, "ties");
  }
  Problem equal(1, 64, 6);
  equal.logits.assign(64, 0.25F);
  equal.bias.assign(64, 0.5F);
  run(equal.args());
  EXPECT_EQ(equal.ids, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST_P(Route, HashTablesChooseButScoresWeigh) {
  Problem problem(3, 20, 2);
  const std::vector<std::int32_t> table = {3, 1, 19, 0, 7, 7};
  const std::vector<TokenId> tokens = {2, 0, 1};
  RouteArgs args = problem.args();
  args.bias = {};
  args.hash_table = {table.data(), {3, 2}};
  args.tokens = tokens;
  expect_as_reference(args, problem, "hash");
  EXPECT_EQ(problem.ids, (std::vector<std::int32_t>{7, 7, 3, 1, 19, 0}));
  EXPECT_FLOAT_EQ(problem.weights[0] + problem.weights[1], 1.5F);
}

TEST_P(Route, LoadGrowsByTheRowsOfEachExpert) {
  Problem problem(50, 24, 5);
  std::vector<std::int64_t> load(24, 7), want(24, 7), reference(24, 7);
  RouteArgs args = problem.args();
  args.load = load;
  run(args, 2);
  for (const std::int32_t id : problem.ids) ++want[static_cast<std::size_t>(id)];
  EXPECT_EQ(load, want);
  args.load = reference;
  route_ref(args);
  EXPECT_EQ(reference, want);
}

TEST_P(Route, LargeAndSmallLogits) {
  Problem problem(1, 16, 6);
  problem.logits = {-1e30F, -80,     -50, -20,     -10, -1e-6F, 0,     1e-6F,
                    10,     19.999F, 20,  20.001F, 50,  100,    1e30F, -2};
  problem.bias.clear();
  for (const RouteScoring scoring : kScorings) {
    RouteArgs args = problem.args(scoring);
    args.normalise = false;
    expect_as_reference(args, problem, "large");
    for (float& z : problem.logits) z = -z;
    expect_as_reference(args, problem, "negated");
  }
}

TEST_P(Route, NonFiniteLogitsNeverBreakTheChoice) {
  std::mt19937 random(11);
  const float bad[] = {std::nanf(""), INFINITY, -INFINITY};
  for (int round = 0; round < 200; ++round) {
    Problem problem(1, 40, 6);
    const std::size_t num_bad = round % 10 == 0 ? 40 : random() % 38;
    for (std::size_t i = 0; i < num_bad; ++i) problem.logits[random() % 40] = bad[random() % 3];
    if (round % 10 == 0) problem.logits.assign(40, bad[round / 10 % 3]);
    RouteArgs args = problem.args(kScorings[round % 3]);
    args.num_groups = round % 2 == 0 ? 1 : 8;
    args.num_groups_kept = round % 2 == 0 ? 1 : 4;
    expect_as_reference(args, problem, "round " + std::to_string(round));
    const std::set<std::int32_t> different(problem.ids.begin(), problem.ids.end());
    EXPECT_EQ(different.size(), 6u);
    EXPECT_TRUE(*different.begin() >= 0 && *different.rbegin() < 40);
  }
}

TEST_P(Route, NaNIsTheLowest) {
  Problem problem(1, 8, 7);
  problem.bias.clear();
  problem.logits[0] = problem.logits[5] = std::nanf("");
  run(problem.args());
  EXPECT_EQ(std::count(problem.ids.begin(), problem.ids.end(), 5), 0);
  EXPECT_EQ(problem.ids.back(), 0);  // of two NaN the lower id
}

TEST_P(Route, RowsDoNotDependOnCompanyOrThreads) {
  const std::int64_t rows = 67;
  for (const RouteScoring scoring : kScorings) {
    Problem alone(rows, 100, 6);
    const RouteArgs args = alone.args(scoring);
    for (std::int64_t t = 0; t < rows; ++t) {
      RouteArgs row = args;
      row.logits = args.logits.slice(t, t + 1);
      row.ids = args.ids.slice(t, t + 1);
      row.weights = args.weights.slice(t, t + 1);
      run(row);
    }
    for (const int num_threads : {1, 2}) {
      Problem together(rows, 100, 6);
      run(together.args(scoring), num_threads);
      EXPECT_EQ(together.ids, alone.ids);
      EXPECT_SAME_BITS(together.weights, alone.weights);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Route, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
