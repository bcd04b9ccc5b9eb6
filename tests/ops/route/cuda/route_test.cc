#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/route/cuda/route.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr std::int64_t kVocab = 50;

struct Shape {
  std::int64_t rows, experts, selected;
  int groups = 1, kept = 1;
};

struct Choice {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  std::vector<std::int64_t> load;
};

/// Inputs of one call, in host memory, and both ways to route them.
struct Problem {
  explicit Problem(const Shape& of) : shape(of) {
    logits = test::random_values(static_cast<std::size_t>(of.rows * of.experts), 1, 2.0F);
    bias = test::random_values(static_cast<std::size_t>(of.experts), 2, 0.1F);
    args.scale = 1.5F;
    args.num_groups = of.groups;
    args.num_groups_kept = of.kept;
  }

  [[nodiscard]] Choice reference() {
    Choice choice = empty(shape.rows);
    RouteArgs here = args;
    here.logits = {logits.data(), {shape.rows, shape.experts}};
    here.bias = bias;
    if (!table.empty()) here.hash_table = {table.data(), {kVocab, shape.selected}};
    here.tokens = tokens;
    here.ids = {choice.ids.data(), {shape.rows, shape.selected}};
    here.weights = {choice.weights.data(), {shape.rows, shape.selected}};
    here.load = choice.load;
    route_ref(here);
    return choice;
  }

  [[nodiscard]] Choice on_device(std::int32_t padding_rows = 0) {
    test::TestCuda cuda(1 << 20);
    tokens.resize(static_cast<std::size_t>(shape.rows));
    const std::vector<SequenceSlice> slices{{0, shape.rows, 5, {}, {}}};
    const RaggedBatch batch{tokens, shape.rows > 0 ? std::span(slices) : std::span<const SequenceSlice>()};
    cuda.set_batch(batch, padding_rows);
    const std::int64_t rows = shape.rows + padding_rows;
    std::vector<float> padded = logits;
    padded.resize(static_cast<std::size_t>(rows * shape.experts), 1.0F);
    Choice choice = empty(rows);
    auto* ids = cuda.allocate<std::int32_t>(rows * shape.selected);
    auto* weights = cuda.allocate<float>(rows * shape.selected);
    auto* load = cuda.upload(choice.load);
    RouteArgs there = args;
    there.logits = {cuda.upload(padded), {rows, shape.experts}};
    if (!bias.empty()) there.bias = {cuda.upload(bias), bias.size()};
    if (!table.empty()) there.hash_table = {cuda.upload(table), {kVocab, shape.selected}};
    there.ids = {ids, {rows, shape.selected}};
    there.weights = {weights, {rows, shape.selected}};
    there.load = {load, choice.load.size()};
    BALEEN_ARCH::route(there, cuda.context());
    cuda.synchronise();
    choice.ids = cuda.download(ids, rows * shape.selected);
    choice.weights = cuda.download(weights, rows * shape.selected);
    choice.load = cuda.download(load, shape.experts);
    return choice;
  }

  Shape shape;
  RouteArgs args;
  std::vector<float> logits, bias;
  std::vector<std::int32_t> table;
  std::vector<TokenId> tokens;

 private:
  [[nodiscard]] Choice empty(std::int64_t rows) const {
    return {std::vector<std::int32_t>(static_cast<std::size_t>(rows * shape.selected), -99),
            std::vector<float>(static_cast<std::size_t>(rows * shape.selected), -99.0F),
            std::vector<std::int64_t>(static_cast<std::size_t>(shape.experts), std::int64_t{1} << 40)};
  }
};

/// Ids are equal: of random scores no two are within rounding of each other.
void expect_as_reference(Problem& problem, const std::string& where) {
  const Choice got = problem.on_device(), want = problem.reference();
  EXPECT_EQ(got.ids, want.ids) << where;
  EXPECT_CLOSE(got.weights, want.weights, {.relative = 2e-6}) << where;
  EXPECT_EQ(got.load, want.load) << where;
}

TEST(RouteOnGpu, WhatIsAddedToTheSumCounts) {
  BALEEN_NEEDS_GPU();
  for (const float sum_eps : {1e-20F, 0.5F}) {
    Problem problem({20, 384, 6});
    problem.args.sum_eps = sum_eps;
    // sqrt(softplus(-92)) = 1.05e-20
    if (sum_eps < 0.5F) problem.logits.assign(problem.logits.size(), -92.0F);
    expect_as_reference(problem, std::to_string(sum_eps));
  }
}

constexpr RouteScoring kScorings[] = {RouteScoring::kSqrtSoftplus, RouteScoring::kSigmoid,
                                      RouteScoring::kSoftmax};

TEST(RouteOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const Shape& shape : {Shape{0, 8, 2},
                             {1, 1, 1},
                             {3, 7, 7},
                             {5, 37, 3},
                             {67, 256, 6},
                             {20, 384, 6},
                             {9, 512, 32},
                             {6, 16, 4},
                             {20, 256, 8, 8, 4},
                             {20, 36, 4, 9, 2},
                             {10, 16, 3, 16, 5},
                             {10, 24, 6, 4, 4}}) {
    for (const RouteScoring scoring : kScorings) {
      for (const bool plain : {false, true}) {
        Problem problem(shape);
        problem.args.scoring = scoring;
        problem.args.normalise = !plain;
        if (plain) problem.bias.clear();
        expect_as_reference(problem, std::to_string(shape.experts) + " experts");
      }
    }
  }
}

TEST(RouteOnGpu, TiesGoToTheLowerId) {
  BALEEN_NEEDS_GPU();
  std::mt19937 random(5);
  for (const Shape& shape : {Shape{64, 48, 6}, {64, 256, 6}, {64, 48, 6, 8, 3}, {64, 300, 8}}) {
    Problem problem(shape);
    for (float& z : problem.logits) z = static_cast<float>(random() % 3);
    std::fill(problem.bias.begin(), problem.bias.end(), 0.0F);
    expect_as_reference(problem, std::to_string(shape.experts) + " experts");
  }
}

TEST(RouteOnGpu, HashTablesChooseButScoresWeigh) {
  BALEEN_NEEDS_GPU();
  std::mt19937 random(6);
  Problem problem({40, 256, 6});
  problem.bias.clear();
  for (std::int64_t i = 0; i < kVocab * 6; ++i)
    problem.table.push_back(static_cast<std::int32_t>(random() % 256));
  for (int i = 0; i < 40; ++i) problem.tokens.push_back(static_cast<TokenId>(random() % kVocab));
  expect_as_reference(problem, "hash");
}

TEST(RouteOnGpu, PaddingRowsGoNowhereAndDoNotShow) {
  BALEEN_NEEDS_GPU();
  Problem problem({9, 256, 6});
  const Choice alone = problem.on_device(), padded = problem.on_device(7);
  EXPECT_TRUE(std::equal(alone.ids.begin(), alone.ids.end(), padded.ids.begin()));
  EXPECT_SAME_BITS(alone.weights, std::span<const float>(padded.weights).first(alone.weights.size()));
  EXPECT_EQ(alone.load, padded.load);
  for (std::size_t i = alone.ids.size(); i < padded.ids.size(); ++i) {
    EXPECT_EQ(padded.ids[i], -1);
    EXPECT_EQ(padded.weights[i], 0.0F);
  }
}

TEST(RouteOnGpu, NonFiniteLogitsNeverBreakTheChoice) {
  BALEEN_NEEDS_GPU();
  std::mt19937 random(11);
  const float bad[] = {std::nanf(""), INFINITY, -INFINITY};
  for (const RouteScoring scoring : kScorings) {
    for (const Shape& shape : {Shape{60, 40, 6}, {60, 40, 6, 8, 4}}) {
      Problem problem(shape);
      problem.args.scoring = scoring;
      for (std::size_t row = 0; row < 60; ++row) {
        const std::size_t num_bad = row < 3 ? 0 : random() % 38;
        for (std::size_t i = 0; i < num_bad; ++i)
          problem.logits[row * 40 + random() % 40] = bad[random() % 3];
        if (row < 3)
          std::fill_n(problem.logits.begin() + static_cast<std::ptrdiff_t>(row * 40), 40, bad[row]);
      }
      expect_as_reference(problem, "scoring " + std::to_string(static_cast<int>(scoring)));
    }
  }
}

TEST(RouteOnGpu, LargeAndSmallLogits) {
  BALEEN_NEEDS_GPU();
  for (const RouteScoring scoring : kScorings) {
    for (const float sign : {1.0F, -1.0F}) {
      Problem problem({1, 16, 6});
      problem.logits = {-1e30F, -80,     -50, -20,     -10, -1e-6F, 0,     1e-6F,
                        10,     19.999F, 20,  20.001F, 50,  85,     1e30F, -2};
      for (float& z : problem.logits) z *= sign;
      problem.bias.clear();
      problem.args.scoring = scoring;
      problem.args.normalise = false;
      expect_as_reference(problem, "large");
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
