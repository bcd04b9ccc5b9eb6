#include "ops/hc_post/hc_post.h"

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

class HcPost : public test::EveryTarget {};

struct Problem {
  Problem(std::int64_t num_rows, std::int64_t num_streams, std::int64_t stream_width)
      : rows(num_rows), n(num_streams), width(stream_width) {
    f = random_values(static_cast<std::size_t>(rows * width), 1);
    post = random_values(static_cast<std::size_t>(rows * n), 2);
    comb = random_values(static_cast<std::size_t>(rows * n * n), 3, 0.5F);
    streams = random_values(static_cast<std::size_t>(rows * n * width), 4);
    for (float& value : streams) value = round_bf16(value);
  }
  HcPostArgs args(Precision precision) {
    return {.f = {f.data(), {rows, width}},
            .post = {post.data(), {rows, n}},
            .comb = {comb.data(), {rows, n, n}},
            .precision = precision,
            .streams = {streams.data(), {rows, n, width}}};
  }

  std::int64_t rows, n, width;
  std::vector<float> f, post, comb, streams;
};

TEST(HcPostReference, FirstIndexOfCombIsTheSource) {
  Problem problem(1, 2, 1);
  problem.f = {10};
  problem.post = {1, 2};
  problem.streams = {3, 5};
  problem.comb = {1, 0.5F, 0, 0.25F};  // stream 0 goes to 0 and half to 1; stream 1 a quarter to 1
  hc_post_ref(problem.args(Precision::kReleased));
  EXPECT_SAME_BITS(problem.streams, (std::vector<float>{13, 22.75F}));
}

TEST_P(HcPost, IdentityKeepsTheStreamsAndZeroPostDropsTheResult) {
  TestCpu cpu;
  Problem problem(3, 4, 75);
  problem.post.assign(problem.post.size(), 0.0F);
  problem.comb.assign(problem.comb.size(), 0.0F);
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t j = 0; j < 4; ++j) problem.comb[t * 16 + j * 5] = 1.0F;
  }
  const std::vector<float> before = problem.streams;
  hc_post_cpu(problem.args(Precision::kExact), cpu.context);
  EXPECT_CLOSE(problem.streams, before, {});
}

TEST_P(HcPost, AgreesWithTheReferenceAtAnyWidth) {
  struct Shape {
    std::int64_t rows, streams, width;
  };
  for (const Shape& shape : {Shape{0, 4, 8},
                             {1, 1, 1},
                             {1, 4, 15},
                             {2, 3, 17},
                             {3, 4, 255},
                             {2, 4, 257},
                             {5, 8, 131},
                             {2, 4, 4096},
                             {1, 4, 7168}}) {
    TestCpu cpu;
    Problem got(shape.rows, shape.streams, shape.width);
    Problem want(shape.rows, shape.streams, shape.width);
    cpu.run<ops::HcPost>(got.args(Precision::kExact));
    hc_post_ref(want.args(Precision::kExact));
    // Sums of up to nine products of size 4: units in the last place of the largest partial sum.
    EXPECT_CLOSE(got.streams, want.streams, {.absolute = 2e-6, .norm = 1.5e-7}) << shape.width;
    cpu.run<ops::HcPost>(got.args(Precision::kReleased));
    hc_post_ref(want.args(Precision::kReleased));
    EXPECT_CLOSE(got.streams, want.streams, {.absolute = 2e-5, .relative = 0x1p-7}) << shape.width;
  }
}

TEST_P(HcPost, MisalignedStridedViewsAndNowhereElse) {
  TestCpu cpu;
  Problem problem(2, 4, 37);
  std::vector<float> buffer(1 + 2 * 4 * 40, -7.0F);
  HcPostArgs args = problem.args(Precision::kReleased);
  const Activations<3> streams(buffer.data() + 1, {2, 4, 37}, {160, 40, 1});
  for (std::int64_t t = 0; t < 2; ++t) {
    for (std::int64_t j = 0; j < 4; ++j) std::ranges::copy(args.streams[t].row(j), streams[t].row(j).begin());
  }
  hc_post_cpu(args, cpu.context);
  HcPostArgs strided = args;
  strided.streams = streams;
  hc_post_cpu(strided, cpu.context);
  for (std::int64_t t = 0; t < 2; ++t) {
    for (std::int64_t j = 0; j < 4; ++j) EXPECT_SAME_BITS(streams[t].row(j), args.streams[t].row(j));
  }
  for (std::size_t i = 38; i < buffer.size(); i += 40) EXPECT_EQ(buffer[i], -7.0F);
}

TEST_P(HcPost, RowsDoNotDependOnCompanyOrThreads) {
  const std::int64_t rows = 31;
  Problem alone(rows, 4, 1000);
  const HcPostArgs args = alone.args(Precision::kReleased);
  TestCpu serial;
  for (std::int64_t t = 0; t < rows; ++t) {
    HcPostArgs row = args;
    row.f = args.f.slice(t, t + 1);
    row.post = args.post.slice(t, t + 1);
    row.comb = args.comb.slice(t, t + 1);
    row.streams = args.streams.slice(t, t + 1);
    serial.run<ops::HcPost>(row);
  }
  for (const int num_threads : {1, 2}) {
    TestCpu cpu(num_threads);
    Problem together(rows, 4, 1000);
    cpu.run<ops::HcPost>(together.args(Precision::kReleased));
    EXPECT_SAME_BITS(together.streams, alone.streams);
  }
}

TEST_P(HcPost, NonFiniteValuesStayInTheirColumn) {
  TestCpu cpu;
  Problem got(1, 4, 40);
  got.f[7] = std::nanf("");
  got.streams[40 + 21] = INFINITY;
  Problem want = got;
  cpu.run<ops::HcPost>(got.args(Precision::kReleased));
  hc_post_ref(want.args(Precision::kReleased));
  EXPECT_CLOSE(got.streams, want.streams, {.absolute = 2e-6, .relative = 0x1p-7});
  for (std::size_t i = 0; i < got.streams.size(); ++i) {
    EXPECT_EQ(std::isfinite(got.streams[i]), i % 40 != 7 && i % 40 != 21) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, HcPost, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
