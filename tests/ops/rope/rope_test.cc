#include "ops/rope/rope.h"

#include <cmath>
#include <tuple>

#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::random_values;
using test::TestCpu;

class Rope : public test::EveryTarget {};

/// Owns a problem: random heads, and the angles of positions 1000, 1001, ...
struct Problem {
  Problem(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dim)
      : extents{rows, heads, head_dim}, pairs(rotary_dim / 2) {
    x = random_values(static_cast<std::size_t>(rows * heads * head_dim), 5);
    const auto frequencies = rope_frequencies(10000.0F, static_cast<int>(rotary_dim), nullptr);
    cosine.resize(static_cast<std::size_t>(rows * pairs));
    sine.resize(cosine.size());
    for (std::int64_t t = 0; t < rows; ++t) {
      rope_angles(frequencies, 1000 + t, View<float, 2>(cosine.data(), {rows, pairs}).row(t),
                  View<float, 2>(sine.data(), {rows, pairs}).row(t));
    }
  }
  RopeArgs args(Precision precision, bool inverse = false) {
    return {.x = {x.data(), extents},
            .cosine = {cosine.data(), {extents[0], pairs}},
            .sine = {sine.data(), {extents[0], pairs}},
            .inverse = inverse,
            .precision = precision};
  }

  View<float, 3>::Extents extents;
  std::int64_t pairs;
  std::vector<float> x, cosine, sine;
};

TEST(RopeReference, QuarterTurnOfTheLastPairs) {
  std::vector<float> x = {1, 2, 3, 4};
  const std::vector<float> cosine = {0.0F}, sine = {1.0F};
  RopeArgs args{.x = {x.data(), {1, 1, 4}}, .cosine = {cosine.data(), {1, 1}}, .sine = {sine.data(), {1, 1}}};
  rope_ref(args);
  EXPECT_SAME_BITS(x, (std::vector<float>{1, 2, -4, 3}));
  args.inverse = true;
  rope_ref(args);
  EXPECT_SAME_BITS(x, (std::vector<float>{1, 2, 3, 4}));
}

TEST(RopeReference, RoundsToBf16UnlessExact) {
  std::vector<float> x = {1.0F, 0.0F};
  const std::vector<float> cosine = {0.6F}, sine = {0.8F};
  RopeArgs args{.x = {x.data(), {1, 1, 2}}, .cosine = {cosine.data(), {1, 1}}, .sine = {sine.data(), {1, 1}}};
  args.precision = Precision::kExact;
  rope_ref(args);
  EXPECT_SAME_BITS(x, (std::vector<float>{0.6F, 0.8F}));
  x = {1.0F, 0.0F};
  args.precision = Precision::kBf16;
  rope_ref(args);
  EXPECT_SAME_BITS(x, (std::vector<float>{0.6015625F, 0.80078125F}));
}

TEST_P(Rope, AgreesWithTheReference) {
  TestCpu cpu;
  for (const auto& [rows, heads, head_dim, rotary_dim] : {std::tuple{0, 1, 8, 4},
                                                          {1, 1, 2, 2},
                                                          {2, 3, 33, 6},
                                                          {3, 2, 50, 46},
                                                          {2, 64, 512, 64},
                                                          {1, 128, 128, 64}}) {
    for (const bool inverse : {false, true}) {
      Problem got(rows, heads, head_dim, rotary_dim);
      Problem want(rows, heads, head_dim, rotary_dim);
      rope_cpu(got.args(Precision::kExact, inverse), cpu.context);
      rope_ref(want.args(Precision::kExact, inverse));
      // Cancellation in a cos - b sin: an absolute bound in units of the largest product (about 4).
      EXPECT_CLOSE(got.x, want.x, {.absolute = 5e-7}) << rows << " " << head_dim;

      Problem rounded(rows, heads, head_dim, rotary_dim);
      Problem rounded_want(rows, heads, head_dim, rotary_dim);
      cpu.run<ops::Rope>(rounded.args(Precision::kReleased, inverse));
      rope_ref(rounded_want.args(Precision::kReleased, inverse));
      EXPECT_CLOSE(rounded.x, rounded_want.x, {.absolute = 5e-7, .relative = 0x1p-7})
          << rows << " " << head_dim;
    }
  }
}

TEST_P(Rope, InverseUndoesIt) {
  TestCpu cpu;
  Problem problem(3, 4, 96, 64);
  const std::vector<float> before = problem.x;
  rope_cpu(problem.args(Precision::kExact), cpu.context);
  EXPECT_NE(test::difference(problem.x, before, {.absolute = 0.1}), "");
  rope_cpu(problem.args(Precision::kExact, true), cpu.context);
  EXPECT_CLOSE(problem.x, before, {.absolute = 1e-6});
}

TEST_P(Rope, RowsDoNotDependOnCompanyOrThreads) {
  for (const int num_threads : {1, 2}) {
    TestCpu cpu(num_threads);
    Problem together(37, 16, 80, 64);
    Problem alone(37, 16, 80, 64);
    rope_cpu(together.args(Precision::kReleased), cpu.context);
    const RopeArgs args = alone.args(Precision::kReleased);
    for (std::int64_t t = 0; t < 37; ++t) {
      RopeArgs row = args;
      row.x = args.x.slice(t, t + 1);
      row.cosine = args.cosine.slice(t, t + 1);
      row.sine = args.sine.slice(t, t + 1);
      rope_cpu(row, cpu.context);
    }
    EXPECT_SAME_BITS(together.x, alone.x);
  }
}

TEST_P(Rope, NonFiniteValuesStayInTheirPair) {
  TestCpu cpu;
  Problem got(1, 1, 64, 64);
  got.x[10] = std::nanf("");
  got.x[21] = INFINITY;
  Problem want = got;
  rope_cpu(got.args(Precision::kBf16), cpu.context);
  rope_ref(want.args(Precision::kBf16));
  EXPECT_CLOSE(got.x, want.x, {.absolute = 5e-7, .relative = 0x1p-7});
  EXPECT_TRUE(std::isfinite(got.x[9]) && std::isfinite(got.x[12]));
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Rope, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
