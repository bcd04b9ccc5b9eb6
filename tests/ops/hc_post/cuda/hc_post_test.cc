#include "tests/support/hc_site_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::HcSiteProblem;
using test::HcSiteResults;
using test::TestCuda;

constexpr bool kLeaving = true;

/// The problem's streams after hc_post on the GPU.
std::vector<float> leave(TestCuda& cuda, const HcSiteProblem& problem) {
  const std::int64_t rows = problem.rows, width = problem.width;
  Bf16Bits* streams = cuda.upload_bf16(problem.streams);
  BALEEN_ARCH::hc_post({.f = View<const Bf16Bits, 2>(cuda.upload_bf16(problem.f), {rows, width}),
                        .post = View<const float, 2>(cuda.upload(problem.post), {rows, 4}),
                        .comb = View<const float, 3>(cuda.upload(problem.comb), {rows, 4, 4}),
                        .streams = View<Bf16Bits, 3>(streams, {rows, 4, width})},
                       cuda.context());
  cuda.synchronise();
  return cuda.download_bf16(streams, rows * 4 * width);
}

TEST(HcPostOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 64}, {1, 8}, {3, 136}, {5, 4096}}) {
    TestCuda cuda;
    HcSiteProblem problem(rows, width);
    std::vector<float> want = problem.streams;
    hc_post_ref({.f = {problem.f.data(), {rows, width}},
                 .post = {problem.post.data(), {rows, 4}},
                 .comb = {problem.comb.data(), {rows, 4, 4}},
                 .streams = {want.data(), {rows, 4, width}}});
    // One rounding to BF16, which goes the other way where the float32 sum is off by its last bits.
    EXPECT_CLOSE(leave(cuda, problem), want, {.absolute = 1e-5, .relative = 0x1p-7, .norm = 1e-4});
  }
}

TEST(HcPostPreNormOnGpu, AgreesWithTheReferences) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 128},
                                    {5, 256},
                                    {40, 384},
                                    {3, 2176},
                                    {250, 2176},
                                    {9, 2048},
                                    {1, 4096},
                                    {11, 4096},
                                    {5, 7168},
                                    {1, 5120},
                                    {70, 5120},
                                    {2, 16384}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    TestCuda cuda;
    HcSiteProblem problem(rows, width);
    EXPECT_EQ(problem.difference(problem.run(cuda, kLeaving, 0, rows), kLeaving), "");
  }
}

TEST(HcPostPreNormOnGpu, ManyRowsInPlace) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  HcSiteProblem problem(2200, 256);  // more than clusters hold at once
  EXPECT_EQ(problem.difference(problem.run(cuda, kLeaving, 0, 2200, true), kLeaving), "");
}

TEST(HcPostPreNormOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{2200, 256}, {600, 4096}, {130, 7168}, {300, 5120}}) {
    TestCuda cuda;
    HcSiteProblem problem(rows, width);
    const HcSiteResults all = problem.run(cuda, kLeaving, 0, rows);
    for (const std::int64_t row : {0, 1, 7, 8, 33, 64, 255, 599}) {
      if (row >= rows) continue;
      EXPECT_EQ(test::row_difference(all, problem.run(cuda, kLeaving, row, row + 1), row), "") << row;
    }
    // Another cut, into more rows than one octet.
    const HcSiteResults cut = problem.run(cuda, kLeaving, 3, 40);
    EXPECT_EQ(test::row_difference(all, problem.run(cuda, kLeaving, 3, 4), 3), "");
    EXPECT_SAME_BITS(cut.y, std::span(all.y).subspan(static_cast<std::size_t>(3 * width), cut.y.size()));
    EXPECT_SAME_BITS(cut.comb, std::span(all.comb).subspan(3 * 16, cut.comb.size()));
  }
}

TEST(HcPostPreNormOnGpu, IsLeavingThenEntering) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t rows : {19, 300}) {
    TestCuda cuda;
    HcSiteProblem problem(rows, 4096);
    const HcSiteResults fused = problem.run(cuda, kLeaving, 0, rows);
    HcSiteProblem left = problem;
    left.streams = leave(cuda, problem);
    EXPECT_SAME_BITS(fused.streams, left.streams);
    const HcSiteResults entered = left.run(cuda, false, 0, rows);
    EXPECT_SAME_BITS(fused.y, entered.y);
    EXPECT_SAME_BITS(fused.post, entered.post);
    EXPECT_SAME_BITS(fused.comb, entered.comb);
  }
}

TEST(HcPostPreNormOnGpu, NaNSpoilsItsOwnRowOnly) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  HcSiteProblem problem(40, 256);
  const HcSiteResults clean = problem.run(cuda, kLeaving, 0, 40);
  problem.f[17 * 256 + 5] = std::nanf("");
  const HcSiteResults got = problem.run(cuda, kLeaving, 0, 40);
  for (std::size_t i = 0; i < got.y.size(); ++i) {
    if (i / 256 == 17) {
      ASSERT_TRUE(std::isnan(got.y[i])) << i;
    } else {
      ASSERT_EQ(got.y[i], clean.y[i]) << i;
    }
  }
  for (std::size_t i = 0; i < got.comb.size(); ++i) ASSERT_EQ(std::isnan(got.comb[i]), i / 16 == 17) << i;
  for (std::size_t i = 0; i < got.streams.size(); ++i) {
    ASSERT_EQ(std::isnan(got.streams[i]), i / 1024 == 17 && i % 256 == 5) << i;
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
