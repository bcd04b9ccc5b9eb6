#include <cmath>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/rms_norm/cuda/rms_norm.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::TestCuda;

std::vector<float> random_bf16(std::int64_t count, std::uint32_t seed, float deviation) {
  std::vector<float> values = test::random_values(static_cast<std::size_t>(count), seed, deviation);
  for (float& value : values) value = round_bf16(value);
  return values;
}

/// Values that differ in more than the sign of zero.
std::int64_t count_differences(std::span<const float> a, std::span<const float> b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !(a[i] == b[i]);
  return count;
}

TEST(RmsNormOnGpu, AgreesWithTheReferenceWithAndWithoutWeight) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{0, 64},
                                    {1, 8},
                                    {3, 72},
                                    {5, 128},
                                    {130, 1024},
                                    {4, 1536},
                                    {3, 4096},
                                    {2, 7168},
                                    {1, 16384}}) {
    for (const bool weighted : {true, false}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << width << (weighted ? ", weighted" : ""));
      TestCuda cuda;
      const std::int64_t stride = width + 16;  // of x: rows of a wider array
      std::vector<float> x = random_bf16(rows * stride, 3, 2.0F), weight = random_bf16(width, 4, 1.0F);
      std::vector<float> want(static_cast<std::size_t>(rows * width));
      RmsNormArgs host{.x = {x.data(), {rows, width}, {stride, 1}}, .y = {want.data(), {rows, width}}};
      if (weighted) host.weight = weight;
      rms_norm_ref(host);

      Bf16Bits* y = cuda.allocate<Bf16Bits>(rows * width);
      const Bf16Bits* device_x = cuda.upload_bf16(x);
      RmsNormArgs args{.x = View<const Bf16Bits, 2>(device_x, {rows, width}, {stride, 1}),
                       .y = View<Bf16Bits, 2>(y, {rows, width})};
      if (weighted) args.weight = {cuda.upload(weight), weight.size()};
      const std::int64_t scale_stride = (rows + 7) / 4 * 4;
      if (width % kActivationGroup == 0) {
        args.y_fp8 = {cuda.allocate<std::uint8_t>(rows * width),
                      cuda.allocate<float>(width / kActivationGroup * scale_stride), scale_stride};
      }
      BALEEN_ARCH::rms_norm(args, cuda.context());
      cuda.synchronise();
      const std::vector<float> got = cuda.download_bf16(y, rows * width);
      // Roundings to BF16: the last (and with a weight the only) one may go the other way.
      EXPECT_CLOSE(got, want, {.relative = 0x1p-7});
      EXPECT_LE(count_differences(got, want), static_cast<std::int64_t>(got.size()) / 500);

      if (!args.y_fp8) continue;
      const auto codes = cuda.download(args.y_fp8.codes, rows * width);
      const auto scales = cuda.download(args.y_fp8.scales, width / kActivationGroup * scale_stride);
      std::vector<std::uint8_t> want_codes(kActivationGroup);
      for (std::int64_t first = 0; first < rows * width; first += kActivationGroup) {
        const auto begin = static_cast<std::size_t>(first);
        const float scale =
            e8m0_to_float(quantise_fp8_block(std::span(got).subspan(begin, kActivationGroup), want_codes));
        const std::int64_t row = first / width, block = first % width / kActivationGroup;
        ASSERT_EQ(scales[static_cast<std::size_t>(block * scale_stride + row)], scale) << row << ' ' << block;
        for (std::size_t i = 0; i < want_codes.size(); ++i)
          ASSERT_EQ(codes[begin + i], want_codes[i]) << begin + i;
      }

      // The row alone, in place.
      Bf16Bits* alone = cuda.upload_bf16(std::span(x).subspan(static_cast<std::size_t>((rows - 1) * stride)));
      RmsNormArgs one = args;
      one.x = View<const Bf16Bits, 2>(alone, {1, width});
      one.y = View<Bf16Bits, 2>(alone, {1, width});
      one.y_fp8 = {};
      BALEEN_ARCH::rms_norm(one, cuda.context());
      cuda.synchronise();
      EXPECT_SAME_BITS(cuda.download_bf16(alone, width),
                       std::span(got).subspan(static_cast<std::size_t>((rows - 1) * width)));
    }
  }
}

TEST(RmsNormOnGpu, NonFiniteRowsAndRowsOfZeros) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  std::vector<float> x = random_bf16(4 * 128, 5, 1.0F), weight(128, 1.0F);
  x[5] = std::nanf("");
  x[128 + 7] = INFINITY;
  std::fill(x.begin() + 256, x.begin() + 384, 0.0F);
  std::vector<float> want(x.size());
  rms_norm_ref({.x = {x.data(), {4, 128}}, .weight = weight, .y = {want.data(), {4, 128}}});
  Bf16Bits* y = cuda.allocate<Bf16Bits>(4 * 128);
  BALEEN_ARCH::rms_norm({.x = View<const Bf16Bits, 2>(cuda.upload_bf16(x), {4, 128}),
                         .weight = {cuda.upload(weight), 128},
                         .y = View<Bf16Bits, 2>(y, {4, 128})},
                        cuda.context());
  cuda.synchronise();
  EXPECT_CLOSE(cuda.download_bf16(y, 4 * 128), want, {.relative = 0x1p-7});
}

TEST(RmsNormRopeOnGpu, AgreesWithNormThenRope) {
  BALEEN_NEEDS_GPU();
  struct Shape {
    std::int64_t tokens, heads, width, pairs;
  };
  for (const Shape& s :
       {Shape{0, 4, 128, 32}, {1, 8, 128, 32}, {3, 5, 512, 32}, {70, 64, 512, 32}, {2, 3, 64, 32}}) {
    for (const bool inverse : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.tokens << " tokens, " << s.heads << " heads of " << s.width);
      TestCuda cuda;
      const std::int64_t rows = s.tokens * s.heads;
      std::vector<float> x = random_bf16(rows * s.width, 6, 3.0F);
      std::vector<float> cosine, sine;
      for (std::int64_t i = 0; i < s.tokens * s.pairs; ++i) {
        cosine.push_back(std::cos(0.37F * static_cast<float>(i)));
        sine.push_back(std::sin(0.37F * static_cast<float>(i)));
      }
      Bf16Bits* q = cuda.upload_bf16(x);
      const View<Bf16Bits, 2> rows_view(q, {rows, s.width});
      BALEEN_ARCH::rms_norm_rope({.x = View<const Bf16Bits, 2>(rows_view), .y = rows_view},
                                 {.x = View<Bf16Bits, 3>(q, {s.tokens, s.heads, s.width}),
                                  .cosine = View<const float, 2>(cuda.upload(cosine), {s.tokens, s.pairs}),
                                  .sine = View<const float, 2>(cuda.upload(sine), {s.tokens, s.pairs}),
                                  .inverse = inverse},
                                 cuda.context());
      rms_norm_ref({.x = {x.data(), {rows, s.width}}, .y = {x.data(), {rows, s.width}}});
      rope_ref({.x = {x.data(), {s.tokens, s.heads, s.width}},
                .cosine = {cosine.data(), {s.tokens, s.pairs}},
                .sine = {sine.data(), {s.tokens, s.pairs}},
                .inverse = inverse});
      cuda.synchronise();
      const std::vector<float> got = cuda.download_bf16(q, rows * s.width);
      // The mean of a head may round to the other BF16 neighbour, so a whole head may be off by a last bit
      // (two after the turn, which may cancel), but that is rare.
      EXPECT_CLOSE(got, x, {.absolute = 0x1p-7, .relative = 0x1p-6});
      EXPECT_LE(count_differences(got, x), static_cast<std::int64_t>(got.size()) / 200);
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
