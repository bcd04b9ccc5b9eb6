// Experts whose activations have a scale per 32, by Hopper's kernels for many tokens, against those for few,
// to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "ops/experts/sm90/experts.h"
#include "tests/support/expert_problem.h"

namespace baleen::sm90 {
namespace {

using Kernel = void (*)(const ExpertsArgs&, CudaContext&);
constexpr ExpertSplit kBoth{.routed = true, .shared = true};

Geometry geometry_of(std::int64_t width, std::int64_t inner, WeightFormat routed = WeightFormat::kFp4) {
  return {.width = width,
          .inner = inner,
          .num_experts = 4,
          .routed = routed,
          .shared = WeightFormat::kFp8x32,
          .group = kSmallActivationGroup};
}

/// All tokens have expert 2, so that its tile, or tiles, have as many; others have some.
Tokens crowded(const Geometry& geometry, std::int64_t num_rows) {
  Tokens tokens(geometry, num_rows, 2, static_cast<std::uint32_t>(num_rows));
  for (std::int64_t row = 0; row < num_rows; ++row) {
    tokens.ids[static_cast<std::size_t>(2 * row)] = 2;
    tokens.ids[static_cast<std::size_t>(2 * row + 1)] = row % 3 == 0 ? -1 : static_cast<int>(row % 2);
  }
  for (std::size_t i = 0; i < tokens.x.size(); ++i) {
    const float factors[] = {1.0F, 64.0F, 0.0F, 0x1p-18F, 0x1p6F};
    tokens.x[i] *= factors[i / 32 % 5];
  }
  return tokens;
}

TEST(WideGroupsSm90, BitsAreThoseOfFewTokens) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  // Odd and even numbers of slices and of pieces of rows, one slice, and one piece.
  for (const auto& [width, inner] : {std::pair{384, 256}, {128, 128}, {640, 384}}) {
    for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8x32}) {
      const Layer layer(cuda, geometry_of(width, inner, routed));
      for (const std::int64_t num_rows : {1,  4,  15, 16,  17,  32,  33,  48,  49,  64,  65, 80,
                                          81, 96, 97, 112, 113, 128, 129, 144, 145, 300, 600}) {
        const Tokens tokens = crowded(layer.geometry(), num_rows);
        for (const ExpertSplit split : {ExpertSplit{}, kBoth}) {
          const auto want = run(cuda, layer, tokens, {.split = split, .run = experts_tiles_of_8});
          for (const auto& [name, wide] : {std::pair<const char*, Kernel>{"small", experts_tiles_of_64},
                                           {"large", experts_tiles_of_144}}) {
            SCOPED_TRACE(fmt::format("{} weights, {} x {}, {} rows, {} tiles{}", weight_format_name(routed),
                                     width, inner, num_rows, name, split.any() ? ", split" : ""));
            EXPECT_SAME_BITS(run(cuda, layer, tokens, {.split = split, .run = wide}), want);
          }
        }
      }
    }
  }
}

/// Without the shared expert, with rows that come as FP8, and with experts of another rank.
TEST(WideGroupsSm90, FormsOfACall) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, geometry_of(256, 384));
  for (const std::int64_t num_rows : {5, 70, 300}) {
    const Tokens tokens = crowded(layer.geometry(), num_rows);
    for (Options options : {Options{.with_shared = false}, Options{.quantised = true}, Options{.limit = 0.0F},
                            Options{.split = kBoth, .first_expert = 1, .num_experts = 2}}) {
      options.run = experts_tiles_of_8;
      const auto want = run(cuda, layer, tokens, options);
      for (const Kernel wide : {experts_tiles_of_64, experts_tiles_of_144}) {
        options.run = wide;
        EXPECT_SAME_BITS(run(cuda, layer, tokens, options), want) << num_rows << " rows";
      }
    }
  }
}

/// Routed experts and the shared one whose inner widths differ.
TEST(WideGroupsSm90, InnerWidthsThatDiffer) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const auto& [inner, shared_inner] : {std::pair{384, 128}, {128, 640}}) {
    Geometry geometry = geometry_of(256, inner);
    geometry.shared_inner = shared_inner;
    const Layer layer(cuda, geometry);
    const Tokens tokens = crowded(geometry, 90);
    const auto want = run(cuda, layer, tokens, {.split = kBoth, .run = experts_tiles_of_8});
    for (const Kernel wide : {experts_tiles_of_64, experts_tiles_of_144})
      EXPECT_SAME_BITS(run(cuda, layer, tokens, {.split = kBoth, .run = wide}), want);
  }
}

/// Weights' scales from end to end of what is exact, and beyond.
TEST(WideGroupsSm90, ScalesFarApart) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, geometry_of(384, 256));
  std::mt19937 random(3);
  layer.change_group_scales(cuda, [&](std::int64_t, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i) scales[i] = static_cast<std::uint8_t>(40 + random() % 160);
  });
  const Tokens tokens = crowded(layer.geometry(), 100);
  const auto want = run(cuda, layer, tokens, {.run = experts_tiles_of_8});
  for (const Kernel wide : {experts_tiles_of_64, experts_tiles_of_144})
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.run = wide}), want);
}

TEST(WideGroupsSm90, NaNStaysInItsRow) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, geometry_of(384, 256));
  const std::int64_t width = layer.geometry().width;
  for (const Kernel wide : {experts_tiles_of_64, experts_tiles_of_144}) {
    Tokens tokens = crowded(layer.geometry(), 100);
    tokens.x[static_cast<std::size_t>(width + 3)] = std::nanf("");
    const auto out = run(cuda, layer, tokens, {.run = wide});
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(std::isnan(out[i]), static_cast<std::int64_t>(i) / width == 1) << i;
  }
}

/// A stage that is written to before all have read it shows in few of many calls.
TEST(WideGroupsSm90, ManyCallsGiveTheSameBits) {
  BALEEN_NEEDS_GPU();
  constexpr int kCalls = 200;
  TestCuda cuda;
  Geometry geometry = geometry_of(5120, 2304);
  geometry.num_experts = 7;
  const Layer layer(cuda, geometry);
  for (const std::int64_t num_rows : {40, 300}) {
    const Tokens tokens(geometry, num_rows, 3, 31);
    const auto want = run(cuda, layer, tokens, {.run = experts_tiles_of_8});
    for (const Kernel wide : {experts_tiles_of_64, experts_tiles_of_144}) {
      Call call(cuda, layer, tokens, {.run = wide});
      int num_wrong = 0;
      for (int i = 0; i < kCalls; ++i) num_wrong += test::bit_difference(call.run(), want).empty() ? 0 : 1;
      EXPECT_EQ(num_wrong, 0) << num_rows << " rows";
    }
  }
}

/// Which kernel a call takes is no matter.
TEST(WideGroupsSm90, ThePlannedScratchHoldsEveryKernel) {
  BALEEN_NEEDS_GPU();
  for (const ExpertSplit split : {ExpertSplit{}, kBoth}) {
    for (const Kernel kernel : {experts_tiles_of_8, experts_tiles_of_64, experts_tiles_of_144}) {
      for (const std::int64_t num_rows : {4, 60, 150}) {
        TestCuda cuda;
        const Layer layer(cuda, geometry_of(256, 384));
        Call call(cuda, layer, Tokens(layer.geometry(), num_rows, 3, 5), {.split = split, .run = kernel});
        (void)call.run();
        EXPECT_LE(cuda.context().scratch.peak_bytes(), call.scratch_bytes()) << num_rows;
      }
    }
  }
}

}  // namespace
}  // namespace baleen::sm90
