#include <cmath>

#include "ops/hc_head/cuda/hc_head.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::TestCuda;

struct Problem {
  Problem(std::int64_t num_rows, std::int64_t stream_width) : rows(num_rows), width(stream_width) {
    fn = test::random_values(static_cast<std::size_t>(16 * width), 1,
                             1.0F / std::sqrt(static_cast<float>(4 * width)));
    streams = test::random_values(static_cast<std::size_t>(rows * 4 * width), 2, 2.0F);
    for (float& value : streams) value = round_bf16(value);
  }
  [[nodiscard]] std::vector<float> run(TestCuda& cuda, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    const auto part = std::span(streams).subspan(static_cast<std::size_t>(begin * 4 * width),
                                                 static_cast<std::size_t>(count * 4 * width));
    Bf16Bits* y = cuda.allocate<Bf16Bits>(count * width);
    BALEEN_ARCH::hc_head({.streams = View<const Bf16Bits, 3>(cuda.upload_bf16(part), {count, 4, width}),
                          .weights = {.fn = {cuda.upload(fn), {4, 4 * width}},
                                      .base = {cuda.upload(base), base.size()},
                                      .scale = {cuda.upload(scale), scale.size()}},
                          .y = View<Bf16Bits, 2>(y, {count, width})},
                         cuda.context());
    cuda.synchronise();
    return cuda.download_bf16(y, count * width);
  }

  std::int64_t rows, width;
  std::vector<float> fn, streams;
  std::vector<float> base = {0.3F, -0.5F, 1.0F, 0.0F}, scale = {0.8F};
};

TEST(HcHeadOnGpu, AgreesWithTheReferenceInAnyCompany) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 128}, {1, 8}, {3, 256}, {4, 4096}, {2, 7168}}) {
    TestCuda cuda;
    Problem problem(rows, width);
    const std::vector<float> got = problem.run(cuda, 0, rows);
    std::vector<float> want(got.size());
    hc_head_ref(
        {.streams = {problem.streams.data(), {rows, 4, width}},
         .weights = {.fn = {problem.fn.data(), {4, 4 * width}}, .base = problem.base, .scale = problem.scale},
         .y = {want.data(), {rows, width}}});
    EXPECT_CLOSE(got, want, {.absolute = 2e-5, .relative = 0x1p-7, .norm = 5e-4}) << rows << " of " << width;
    if (rows > 1) {
      EXPECT_SAME_BITS(problem.run(cuda, rows - 1, rows),
                       std::span(got).subspan(static_cast<std::size_t>((rows - 1) * width)));
    }
  }
}

TEST(HcHeadOnGpu, SumsWithGivenWeights) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 8}, {1, 8}, {3, 256}, {2, 5120}}) {
    TestCuda cuda;
    Problem problem(rows, width);
    const std::vector<float> given = test::random_values(static_cast<std::size_t>(rows * 4), 5);
    std::vector<float> want(static_cast<std::size_t>(rows * width));
    Bf16Bits* y = cuda.allocate<Bf16Bits>(rows * width);
    HcHeadArgs args{.streams = {problem.streams.data(), {rows, 4, width}},
                    .weights = {},
                    .y = {want.data(), {rows, width}},
                    .given = {given.data(), {rows, 4}}};
    hc_head_ref(args);
    args.streams = View<const Bf16Bits, 3>(cuda.upload_bf16(problem.streams), {rows, 4, width});
    args.y = View<Bf16Bits, 2>(y, {rows, width});
    args.given = View<const float, 2>(cuda.upload(given), {rows, 4});
    BALEEN_ARCH::hc_head(args, cuda.context());
    cuda.synchronise();
    EXPECT_CLOSE(cuda.download_bf16(y, rows * width), want,
                 {.absolute = 2e-5, .relative = 0x1p-7, .norm = 5e-4})
        << rows << " of " << width;
  }
}

TEST(HcHeadOnGpu, NonFiniteStreamsSpoilTheirOwnRowOnly) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Problem problem(3, 256);
  const std::vector<float> clean = problem.run(cuda, 0, 3);
  for (const float bad : {std::nanf(""), INFINITY}) {
    problem.streams[1024 + 77] = bad;
    const std::vector<float> got = problem.run(cuda, 0, 3);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i / 256 == 1) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(got[i], clean[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
