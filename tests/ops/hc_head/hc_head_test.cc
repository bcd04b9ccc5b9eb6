#include "ops/hc_head/hc_head.h"

#include <cmath>

#include "numeric/bf16.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::random_values;
using test::TestCpu;

class HcHead : public test::EveryTarget {};

struct Problem {
  Problem(std::int64_t num_rows, std::int64_t num_streams, std::int64_t stream_width)
      : rows(num_rows), n(num_streams), width(stream_width) {
    fn = random_values(static_cast<std::size_t>(n * n * width), 1,
                       1.0F / std::sqrt(static_cast<float>(n * width)));
    base = random_values(static_cast<std::size_t>(n), 2);
    streams = random_values(static_cast<std::size_t>(rows * n * width), 3, 2.0F);
    for (float& value : streams) value = round_bf16(value);
    y.assign(static_cast<std::size_t>(rows * width), -99.0F);
  }
  HcHeadArgs args(Precision precision) {
    return {.streams = {streams.data(), {rows, n, width}},
            .weights = {.fn = {fn.data(), {n, n * width}}, .base = base, .scale = scale},
            .precision = precision,
            .y = {y.data(), {rows, width}}};
  }

  std::int64_t rows, n, width;
  std::vector<float> fn, base, streams, y;
  std::vector<float> scale = {0.7F};
};

void run(const HcHeadArgs& args, int num_threads) {
  const std::int64_t n = args.streams.extent(1);
  TestCpu cpu(num_threads, hc_head_scratch_bytes(args.streams.extent(0), n, args.streams.extent(2)));
  cpu.run<ops::HcHead>(args);
}

TEST(HcHeadReference, ClosedAndOpenStreams) {
  // Without mixing, the base alone opens a stream (sigmoid 1) or closes it (0); hc_eps is added to both.
  Problem problem(1, 2, 64);
  problem.fn.assign(problem.fn.size(), 0.0F);
  problem.base = {100.0F, -100.0F};
  hc_head_ref(problem.args(Precision::kExact));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(problem.y[i], problem.streams[i] * (1 + 1e-6F) + problem.streams[64 + i] * 1e-6F, 1e-6F);
  }
}

TEST_P(HcHead, AgreesWithTheReference) {
  struct Shape {
    std::int64_t rows, streams, width;
  };
  for (const Shape& shape :
       {Shape{0, 4, 32}, {1, 4, 32}, {7, 4, 96}, {3, 1, 128}, {2, 8, 48}, {3, 4, 4096}, {2, 4, 7168}}) {
    Problem got(shape.rows, shape.streams, shape.width);
    Problem want(shape.rows, shape.streams, shape.width);
    run(got.args(Precision::kExact), 1);
    hc_head_ref(want.args(Precision::kExact));
    // The error of float32 products over up to 28,672 inputs.
    EXPECT_CLOSE(got.y, want.y, {.absolute = 2e-5, .norm = 1e-6}) << shape.rows << " rows of " << shape.width;
    run(got.args(Precision::kBf16), 1);
    hc_head_ref(want.args(Precision::kBf16));
    EXPECT_CLOSE(got.y, want.y, {.absolute = 2e-5, .relative = 0x1p-7})
        << shape.rows << " rows of " << shape.width;
  }
}

TEST_P(HcHead, SumsWithGivenWeights) {
  Problem got(9, 4, 96), want(9, 4, 96);
  std::vector<float> given = random_values(9 * 4, 5);
  // The first row's streams count as they are.
  std::ranges::copy(std::vector<float>{1, 0, 0, 0}, given.begin());
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    HcHeadArgs args = got.args(precision), reference = want.args(precision);
    for (HcHeadArgs* one : {&args, &reference}) {
      one->weights = {};
      one->given = {given.data(), {9, 4}};
    }
    run(args, 2);
    hc_head_ref(reference);
    EXPECT_CLOSE(got.y, want.y,
                 {.absolute = 2e-5, .relative = precision == Precision::kExact ? 0.0 : 0x1p-7});
    EXPECT_SAME_BITS(std::span(got.y).first(96), std::span(got.streams).first(96));
  }
}

TEST_P(HcHead, RowsDoNotDependOnCompanyOrThreads) {
  const std::int64_t rows = 23;
  Problem alone(rows, 4, 1024);
  const HcHeadArgs args = alone.args(Precision::kReleased);
  for (std::int64_t t = 0; t < rows; ++t) {
    HcHeadArgs row = args;
    row.streams = args.streams.slice(t, t + 1);
    row.y = args.y.slice(t, t + 1);
    run(row, 1);
  }
  for (const int num_threads : {1, 2}) {
    Problem together(rows, 4, 1024);
    run(together.args(Precision::kReleased), num_threads);
    EXPECT_SAME_BITS(together.y, alone.y);
  }
}

TEST_P(HcHead, NonFiniteStreamsSpoilTheirOwnRowOnly) {
  Problem problem(3, 4, 32);
  problem.streams[128 + 3] = INFINITY;
  run(problem.args(Precision::kReleased), 1);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_TRUE(std::isfinite(problem.y[i]) && std::isfinite(problem.y[64 + i]));
    EXPECT_TRUE(std::isnan(problem.y[32 + i]));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, HcHead, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
