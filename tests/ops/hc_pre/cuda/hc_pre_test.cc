#include <limits>

#include "ops/hc_pre/cuda/hc_pre.h"
#include "tests/support/hc_site_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::HcSiteProblem;
using test::HcSiteResults;
using test::TestCuda;

constexpr bool kEntering = false;

TEST(HcPreNormOnGpu, AgreesWithTheReferences) {
  BALEEN_NEEDS_GPU();
  // One rank and many, slices of one size and of two, one chunk a warp and several; octets with gaps.
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 128},
                                    {5, 256},
                                    {40, 384},
                                    {3, 2176},
                                    {9, 2048},
                                    {1, 4096},
                                    {11, 4096},
                                    {5, 7168},
                                    {2, 16384}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    TestCuda cuda;
    HcSiteProblem problem(rows, width);
    EXPECT_EQ(problem.difference(problem.run(cuda, kEntering, 0, rows), kEntering), "");
  }
}

TEST(HcPreNormOnGpu, LaggedMixingAgreesWithTheReferences) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 128}, {5, 256}, {11, 4096}, {3, 5120}, {40, 5120}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    for (const bool leaving : {false, true}) {
      TestCuda cuda;
      HcSiteProblem problem(rows, width);
      problem.lag();
      EXPECT_EQ(problem.difference(problem.run(cuda, leaving, 0, rows), leaving), "");
    }
  }
}

TEST(HcPreNormOnGpu, SteepLogitsStayDoublyStochastic) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  HcSiteProblem problem(40, 256);
  for (float& value : problem.fn) value *= 50.0F;
  const HcSiteResults got = problem.run(cuda, kEntering, 0, 40);
  for (std::size_t t = 0; t < 40; ++t) {
    for (std::size_t k = 0; k < 4; ++k) {
      float column = 0.0F;
      for (std::size_t j = 0; j < 4; ++j) column += got.comb[t * 16 + j * 4 + k];
      EXPECT_NEAR(column, 1.0F, 2e-5F);  // the last step is on columns; hc_eps is 1e-6
      EXPECT_GE(got.post[t * 4 + k], 0.0F);
      EXPECT_LE(got.post[t * 4 + k], 2.0F);
    }
  }
}

/// Without the norm: what the site that is entered leaves to the sublayer.
TEST(HcPreOnGpu, TheWeightedSumAloneAgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t n = 4, kMixes = 24;
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 128}, {5, 256}, {11, 4096}, {2, 16384}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    TestCuda cuda;
    HcSiteProblem problem(rows, width);
    std::vector<float> u(static_cast<std::size_t>(rows * width)), post(static_cast<std::size_t>(rows * n)),
        comb(static_cast<std::size_t>(rows * n * n));
    hc_pre_ref({.streams = {problem.streams.data(), {rows, n, width}},
                .weights = {.fn = {problem.fn.data(), {kMixes, n * width}},
                            .base = problem.base,
                            .scale = problem.scale},
                .u = {u.data(), {rows, width}},
                .post = {post.data(), {rows, n}},
                .comb = {comb.data(), {rows, n, n}}});
    Bf16Bits* device_u = cuda.allocate<Bf16Bits>(rows * width);
    hc_pre({.streams = View<const Bf16Bits, 3>(cuda.upload_bf16(problem.streams), {rows, n, width}),
            .weights = {.fn = {cuda.upload(problem.fn), {kMixes, n * width}},
                        .base = {cuda.upload(problem.base), problem.base.size()},
                        .scale = {cuda.upload(problem.scale), problem.scale.size()}},
            .u = View<Bf16Bits, 2>(device_u, {rows, width}),
            .post = {cuda.allocate<float>(rows * n), {rows, n}},
            .comb = {cuda.allocate<float>(rows * n * n), {rows, n, n}}},
           cuda.context());
    cuda.synchronise();
    EXPECT_CLOSE(cuda.download_bf16(device_u, rows * width), u,
                 {.absolute = 1e-5, .relative = 0x1p-7, .norm = 1e-4});
  }
}

TEST(HcPreNormOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{2200, 256}, {300, 4096}, {300, 5120}}) {
    TestCuda cuda;
    HcSiteProblem problem(rows, width);
    const HcSiteResults all = problem.run(cuda, kEntering, 0, rows);
    for (const std::int64_t row : {0, 1, 7, 8, 33, 64, 255, 299}) {
      EXPECT_EQ(test::row_difference(all, problem.run(cuda, kEntering, row, row + 1), row), "") << row;
    }
  }
}

TEST(HcPreNormOnGpu, NonFiniteStreamsSpoilTheirOwnRowOnly) {
  BALEEN_NEEDS_GPU();
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    TestCuda cuda;
    HcSiteProblem problem(12, 256);
    const HcSiteResults clean = problem.run(cuda, kEntering, 0, 12);
    problem.streams[2 * 1024 + 300] = bad;
    const HcSiteResults got = problem.run(cuda, kEntering, 0, 12);
    for (std::int64_t row = 0; row < 12; ++row) {
      HcSiteProblem alone(1, 256);
      HcSiteResults want;
      const auto cut = [row](const std::vector<float>& values, std::size_t count) {
        const auto first =
            values.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(count);
        return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count));
      };
      want = {cut(clean.streams, 1024), cut(clean.post, 4), cut(clean.comb, 16), cut(clean.y, 256), {}, {}};
      if (row != 2) {
        EXPECT_EQ(test::row_difference(got, want, row), "") << row;
      } else {
        for (const float value : cut(got.post, 4)) EXPECT_TRUE(std::isnan(value));
        for (const float value : cut(got.comb, 16)) EXPECT_TRUE(std::isnan(value));
        for (const float value : cut(got.y, 256)) EXPECT_TRUE(std::isnan(value));
      }
    }
  }
}

TEST(HcPreNormOnGpu, NoRowsIsANoOp) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  HcSiteProblem problem(1, 256);
  EXPECT_TRUE(problem.run(cuda, kEntering, 0, 0).y.empty());
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
