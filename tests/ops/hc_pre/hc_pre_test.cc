#include "ops/hc_pre/hc_pre.h"

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

class HcPre : public test::EveryTarget {};

/// Owns weights, streams and results of one problem. `deviation`: of the mixing logits.
struct Problem {
  Problem(std::int64_t num_rows, std::int64_t num_streams, std::int64_t stream_width, float deviation = 1.0F)
      : rows(num_rows), n(num_streams), width(stream_width) {
    const std::int64_t num_mixes = (2 + n) * n;
    fn = random_values(static_cast<std::size_t>(num_mixes * n * width), 1,
                       deviation / std::sqrt(static_cast<float>(n * width)));
    base = random_values(static_cast<std::size_t>(num_mixes), 2);
    streams = random_values(static_cast<std::size_t>(rows * n * width), 3, 2.0F);
    for (float& value : streams) value = round_bf16(value);
    u.assign(static_cast<std::size_t>(rows * width), -99.0F);
    post.assign(static_cast<std::size_t>(rows * n), -99.0F);
    comb.assign(static_cast<std::size_t>(rows * n * n), -99.0F);
  }
  HcPreArgs args(Precision precision) {
    return {.streams = {streams.data(), {rows, n, width}},
            .weights = {.fn = {fn.data(), {(2 + n) * n, n * width}}, .base = base, .scale = scale},
            .precision = precision,
            .u = {u.data(), {rows, width}},
            .post = {post.data(), {rows, n}},
            .comb = {comb.data(), {rows, n, n}}};
  }

  std::int64_t rows, n, width;
  std::vector<float> fn, base, streams, u, post, comb;
  std::vector<float> scale = {0.7F, 1.3F, -0.9F};
};

void run(const HcPreArgs& args, int num_threads) {
  const std::int64_t n = args.streams.extent(1);
  TestCpu cpu(num_threads, hc_pre_scratch_bytes(args.streams.extent(0), n, args.streams.extent(2)));
  cpu.run<ops::HcPre>(args);
}

TEST(HcPreReference, NoMixingGivesHalvesAndAQuarter) {
  // fn and base zero: every sigmoid is one half, and Sinkhorn of an all-equal matrix is 1/4 (source: forward
  // pass 14).
  Problem problem(2, 4, 32);
  problem.fn.assign(problem.fn.size(), 0.0F);
  problem.base.assign(problem.base.size(), 0.0F);
  hc_pre_ref(problem.args(Precision::kExact));
  EXPECT_CLOSE(problem.post, std::vector<float>(8, 1.0F), {});
  EXPECT_CLOSE(problem.comb, std::vector<float>(32, 0.25F), {.absolute = 1e-6});
  for (std::int64_t i = 0; i < 32; ++i) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < 4; ++j) sum += problem.streams[static_cast<std::size_t>(j * 32 + i)];
    EXPECT_NEAR(problem.u[static_cast<std::size_t>(i)], (0.5F + 1e-6F) * sum, 1e-5F);
  }
}

TEST(HcPreReference, OneIterationByHand) {
  // Two streams; logits of comb from the base alone: rows (ln 3, 0) and (0, 0). Row softmax (3/4, 1/4), (1/2,
  // 1/2); column sums 5/4 and 3/4.
  Problem problem(1, 2, 64);
  problem.fn.assign(problem.fn.size(), 0.0F);
  problem.base = {0, 0, 0, 0, std::log(3.0F), 0, 0, 0};
  problem.scale = {1, 1, 1};
  HcPreArgs args = problem.args(Precision::kExact);
  args.sinkhorn_iterations = 1;
  args.hc_eps = 0.0F;
  hc_pre_ref(args);
  EXPECT_CLOSE(problem.comb, (std::vector<float>{0.6F, 1 / 3.0F, 0.4F, 2 / 3.0F}), {.relative = 1e-6});
}

TEST(HcPreReference, MixesAreDividedByTheRootMeanSquare) {
  // Every value 3: fn of ones over 128 inputs, times rho = 1/3, is 128 for any size of the values.
  Problem problem(1, 4, 32);
  problem.streams.assign(problem.streams.size(), 3.0F);
  problem.fn.assign(problem.fn.size(), 1.0F);
  problem.base.assign(problem.base.size(), 0.0F);
  problem.base[4] = -1.0F;
  problem.scale = {1.0F, 1.0F / 128, 1.0F};
  hc_pre_ref(problem.args(Precision::kExact));
  EXPECT_NEAR(problem.post[0], 1.0, 1e-6);  // 2 sigmoid(128 / 128 - 1)
  EXPECT_NEAR(problem.post[1], 2 / (1 + std::exp(-1.0)), 1e-6);
}

TEST_P(HcPre, AgreesWithTheReference) {
  struct Shape {
    std::int64_t rows, streams, width;
  };
  for (const Shape& shape : {Shape{0, 4, 32},
                             {1, 4, 32},
                             {9, 4, 96},
                             {17, 4, 32},
                             {3, 1, 128},
                             {5, 2, 64},
                             {2, 8, 48},
                             {3, 4, 4096},
                             {2, 4, 7168}}) {
    Problem got(shape.rows, shape.streams, shape.width);
    Problem want(shape.rows, shape.streams, shape.width);
    run(got.args(Precision::kExact), 1);
    hc_pre_ref(want.args(Precision::kExact));
    const std::string where = std::to_string(shape.rows) + " rows of " + std::to_string(shape.width);
    // The products are float32 sums over up to 28,672 inputs; their error is what is seen here, in units of
    // the largest partial sums (a few).
    EXPECT_CLOSE(got.post, want.post, {.absolute = 3e-6}) << where;
    EXPECT_CLOSE(got.comb, want.comb, {.absolute = 3e-6}) << where;
    EXPECT_CLOSE(got.u, want.u, {.absolute = 2e-5, .norm = 1e-6}) << where;

    run(got.args(Precision::kReleased), 1);
    hc_pre_ref(want.args(Precision::kReleased));
    EXPECT_CLOSE(got.u, want.u, {.absolute = 2e-5, .relative = 0x1p-7}) << where;
  }
}

TEST(HcPreReference, LaggedMixingSumsWithWhatCameAndHandsItsOwnOn) {
  // fn and base zero: its own pre is 1/2 + hc_eps for every stream, and what came says the second one alone.
  Problem problem(1, 4, 32);
  problem.fn.assign(problem.fn.size(), 0.0F);
  problem.base.assign(problem.base.size(), 0.0F);
  std::vector<float> pre = {0, 1, 0, 0};
  HcPreArgs args = problem.args(Precision::kExact);
  args.incoming = {pre.data(), {1, 4}};
  args.pre = {pre.data(), {1, 4}};
  hc_pre_ref(args);
  EXPECT_SAME_BITS(problem.u, std::span(problem.streams).subspan(32, 32));
  EXPECT_CLOSE(pre, std::vector<float>(4, 0.5F + 1e-6F), {.relative = 1e-6});
}

TEST_P(HcPre, LaggedMixingAgreesWithTheReference) {
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    Problem got(17, 4, 96), want(17, 4, 96);
    const std::vector<float> incoming = random_values(17 * 4, 5);
    std::vector<float> in_place = incoming, pre(17 * 4), want_pre(17 * 4);
    HcPreArgs args = got.args(precision), reference = want.args(precision);
    args.incoming = {in_place.data(), {17, 4}};
    args.pre = {in_place.data(), {17, 4}};
    reference.incoming = {incoming.data(), {17, 4}};
    reference.pre = {want_pre.data(), {17, 4}};
    run(args, 2);
    hc_pre_ref(reference);
    EXPECT_CLOSE(in_place, want_pre, {.absolute = 3e-6});
    EXPECT_CLOSE(got.post, want.post, {.absolute = 3e-6});
    EXPECT_CLOSE(got.comb, want.comb, {.absolute = 3e-6});
    EXPECT_CLOSE(got.u, want.u,
                 {.absolute = 2e-5, .relative = precision == Precision::kExact ? 0.0 : 0x1p-7});
    // What the streams say of themselves is the same whichever way u is made.
    Problem alone(17, 4, 96);
    HcPreArgs not_lagged = alone.args(precision);
    not_lagged.pre = {pre.data(), {17, 4}};
    run(not_lagged, 1);
    EXPECT_SAME_BITS(pre, in_place);
    EXPECT_SAME_BITS(alone.comb, got.comb);
  }
}

TEST_P(HcPre, CombIsDoublyStochasticAlsoForSteepLogits) {
  for (const float deviation : {0.0F, 1.0F, 8.0F, 50.0F}) {
    Problem problem(40, 4, 32, deviation);
    run(problem.args(Precision::kReleased), 1);
    for (std::size_t t = 0; t < 40; ++t) {
      for (std::size_t k = 0; k < 4; ++k) {
        float column = 0.0F;
        for (std::size_t j = 0; j < 4; ++j) column += problem.comb[t * 16 + j * 4 + k];
        EXPECT_NEAR(column, 1.0F, 2e-5F) << deviation;  // the last step is on columns; hc_eps is 1e-6
        EXPECT_GE(problem.post[t * 4 + k], 0.0F);
        EXPECT_LE(problem.post[t * 4 + k], 2.0F);
      }
    }
  }
}

TEST_P(HcPre, RowsDoNotDependOnCompanyOrThreads) {
  const std::int64_t rows = 29;
  Problem alone(rows, 4, 1024);
  const HcPreArgs args = alone.args(Precision::kReleased);
  for (std::int64_t t = 0; t < rows; ++t) {
    HcPreArgs row = args;
    row.streams = args.streams.slice(t, t + 1);
    row.u = args.u.slice(t, t + 1);
    row.post = args.post.slice(t, t + 1);
    row.comb = args.comb.slice(t, t + 1);
    run(row, 1 + static_cast<int>(t % 2));
  }
  for (const int num_threads : {1, 2}) {
    Problem together(rows, 4, 1024);
    run(together.args(Precision::kReleased), num_threads);
    EXPECT_SAME_BITS(together.u, alone.u);
    EXPECT_SAME_BITS(together.post, alone.post);
    EXPECT_SAME_BITS(together.comb, alone.comb);
  }
}

TEST_P(HcPre, MisalignedStridedRows) {
  Problem problem(3, 4, 64);
  std::vector<float> streams(1 + 3 * 300), u(1 + 3 * 70, -7.0F), want_u;
  for (std::size_t t = 0; t < 3; ++t) {
    std::copy_n(problem.streams.begin() + static_cast<std::ptrdiff_t>(t * 256), 256,
                streams.begin() + static_cast<std::ptrdiff_t>(1 + t * 300));
  }
  run(problem.args(Precision::kReleased), 1);
  HcPreArgs args = problem.args(Precision::kReleased);
  const std::vector<float> want = problem.u;
  args.streams = {streams.data() + 1, {3, 4, 64}, {300, 64, 1}};
  args.u = {u.data() + 1, {3, 64}, {70, 1}};
  run(args, 1);
  for (std::int64_t t = 0; t < 3; ++t) {
    EXPECT_SAME_BITS(args.u.row(t), (std::span(want).subspan(static_cast<std::size_t>(t) * 64, 64)));
  }
  EXPECT_EQ(u[65], -7.0F);
}

TEST_P(HcPre, NonFiniteStreamsSpoilTheirOwnRowOnly) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Problem clean(5, 4, 32);
    Problem got(5, 4, 32);
    Problem want(5, 4, 32);
    got.streams[2 * 128 + 40] = bad;
    want.streams[2 * 128 + 40] = bad;
    run(clean.args(Precision::kReleased), 1);
    run(got.args(Precision::kReleased), 1);
    hc_pre_ref(want.args(Precision::kReleased));
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_TRUE(std::isnan(got.comb[2 * 16 + i]));
      EXPECT_TRUE(std::isnan(want.comb[2 * 16 + i]));
    }
    EXPECT_TRUE(std::isnan(got.post[8]) && std::isnan(got.u[64]));
    EXPECT_SAME_BITS(std::span(got.comb).subspan(0, 32), std::span(clean.comb).subspan(0, 32));
    EXPECT_SAME_BITS(std::span(got.comb).subspan(48), std::span(clean.comb).subspan(48));
    EXPECT_SAME_BITS(std::span(got.u).subspan(96), std::span(clean.u).subspan(96));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, HcPre, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
