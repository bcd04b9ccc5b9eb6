#include "ops/rope/cuda/rope.h"

#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "numeric/bf16.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// The reference adds in float64, the kernel in float32: a value within 2^-24 of the middle between two BF16
/// numbers may be rounded to the other one, 2^-7 of it away at most. That is rare, so the whole array is held
/// to far less.
constexpr test::Tolerance kTies{.relative = 0x1p-7, .norm = 1e-4};

TEST(RopeOnGpu, RotatesAsTheReferenceBothWays) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, heads, width, pairs] : {std::array<std::int64_t, 4>{1, 1, 64, 32},
                                                  {5, 3, 512, 32},
                                                  {40, 64, 128, 8},
                                                  {0, 4, 64, 32},
                                                  {1, 64, 512, 32},  // a block has a part of a row
                                                  {7, 33, 64, 32}}) {
    for (const bool inverse : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << rows << " x " << heads << " x " << width << (inverse ? ", inverse" : ""));
      test::TestCuda cuda;
      std::vector<float> x = test::random_values(static_cast<std::size_t>(rows * heads * width), 3, 2.0F);
      for (float& value : x) value = round_bf16(value);
      std::vector<float> cosine(static_cast<std::size_t>(rows * pairs)), sine(cosine.size());
      for (std::size_t i = 0; i < cosine.size(); ++i) {
        cosine[i] = std::cos(0.1F * static_cast<float>(i));
        sine[i] = std::sin(0.1F * static_cast<float>(i));
      }
      Bf16Bits* device_x = cuda.upload_bf16(x);
      rope({.x = View<Bf16Bits, 3>(device_x, {rows, heads, width}),
            .cosine = View<const float, 2>(cuda.upload(cosine), {rows, pairs}),
            .sine = View<const float, 2>(cuda.upload(sine), {rows, pairs}),
            .inverse = inverse},
           cuda.context());
      cuda.synchronise();
      rope_ref({.x = {x.data(), {rows, heads, width}},
                .cosine = {cosine.data(), {rows, pairs}},
                .sine = {sine.data(), {rows, pairs}},
                .inverse = inverse});
      EXPECT_CLOSE(cuda.download_bf16(device_x, rows * heads * width), x, kTies);
    }
  }
}

/// However many blocks a row has, or threads that go over it twice.
TEST(RopeOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 1100, kHeads = 6, kWidth = 64, kPairs = 32, kRowSize = kHeads * kWidth;
  test::TestCuda cuda;
  std::vector<float> x = test::random_values(static_cast<std::size_t>(kRows * kRowSize), 4, 2.0F);
  const std::vector<float> cosine = test::random_values(static_cast<std::size_t>(kRows * kPairs), 5),
                           sine = test::random_values(static_cast<std::size_t>(kRows * kPairs), 6);
  const float *const device_cosine = cuda.upload(cosine), *const device_sine = cuda.upload(sine);
  const auto rotated = [&](std::int64_t begin, std::int64_t end) {
    Bf16Bits* const all = cuda.upload_bf16(x);
    rope({.x = View<Bf16Bits, 3>(all + begin * kRowSize, {end - begin, kHeads, kWidth}),
          .cosine = View<const float, 2>(device_cosine + begin * kPairs, {end - begin, kPairs}),
          .sine = View<const float, 2>(device_sine + begin * kPairs, {end - begin, kPairs}),
          .inverse = false},
         cuda.context());
    cuda.synchronise();
    return cuda.download_bf16(all + begin * kRowSize, (end - begin) * kRowSize);
  };
  const auto whole = rotated(0, kRows);
  for (const auto& [begin, end] : {std::pair{0, 1}, {3, 10}, {500, 900}}) {
    const auto part = rotated(begin, end);
    ASSERT_SAME_BITS(part, std::span(whole).subspan(static_cast<std::size_t>(begin * kRowSize), part.size()))
        << begin << " to " << end;
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
