// Hopper's kernels of experts whose activations have a scale per 32, for up to eight tokens: against those of
// tiles of tokens, to the bit, and against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ops/experts/sm90/experts.h"
#include "ops/experts/sm90/groups_few.h"
#include "tests/support/expert_problem.h"

namespace baleen::sm90 {
namespace {

constexpr ExpertSplit kWhole{}, kBoth{.routed = true, .shared = true}, kShared{.shared = true},
    kRouted{.routed = true};

/// Of DeepSeek-V4.1.
constexpr Geometry geometry_of(std::int64_t width, std::int64_t inner, int num_experts,
                               std::int64_t shared_inner = 0) {
  return {.width = width,
          .inner = inner,
          .num_experts = num_experts,
          .shared = WeightFormat::kFp8x32,
          .shared_inner = shared_inner,
          .group = kSmallActivationGroup};
}

/// Groups of x beside each other are binades apart.
void spread(Tokens& tokens) {
  constexpr float kFactors[] = {1.0F, 64.0F, 0.0F, 0x1p-18F, 0x1p6F};
  for (std::size_t i = 0; i < tokens.x.size(); ++i) tokens.x[i] *= kFactors[i / 32 % 5];
}

/// Tokens with all, some and none of their experts in common, an expert twice, slots without any; odd numbers
/// of slices, of eights of outputs and of parts; the released widths, and half of their inner one.
TEST(FewGroupsSm90, AreAsInTiles) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const auto& [width, inner, shared_inner] : {std::tuple{512, 384, 384},
                                                   {384, 128, 128},
                                                   {128, 1152, 512},
                                                   {640, 256, 384},
                                                   {5120, 1152, 1152},
                                                   {5120, 2304, 1152}}) {
    const Geometry geometry = geometry_of(width, inner, 13, shared_inner);
    const Layer layer(cuda, geometry);
    for (const std::int64_t num_selected : {1, 3, 6, 8}) {
      for (const std::int64_t num_rows : {1, 2, 3, 4, 6, 8}) {
        if (width == 5120 && (num_selected != 6 || (inner == 2304 && num_rows > 4))) continue;
        for (const int kind : {0, 1, 2, 3}) {
          Tokens tokens(geometry, num_rows, num_selected, static_cast<std::uint32_t>(31 + kind));
          spread(tokens);
          const std::size_t count = tokens.ids.size();
          if (kind == 1) {  // those of the first token, in another order; padding at the end
            const std::vector<std::int32_t> first(tokens.ids.begin(), tokens.ids.begin() + num_selected);
            for (std::size_t i = 0; i < count; ++i)
              tokens.ids[i] = first[(i + i / first.size()) % first.size()];
            tokens.ids[count - 1] = -1;
          }
          if (kind == 3) std::ranges::fill(tokens.ids, 5);
          if (kind == 2) tokens.ids[count - 1] = tokens.ids[0];
          for (const bool with_shared : {false, true}) {
            for (const ExpertSplit split : {kWhole, kBoth}) {
              if (!split.shared && shared_inner != inner) continue;  // whole experts have one width
              SCOPED_TRACE(fmt::format("{} x {} ({}), {} slots, {} rows, kind {}, {} shared, {}", width,
                                       inner, shared_inner, num_selected, num_rows, kind,
                                       with_shared ? "with" : "without", split.any() ? "split" : "whole"));
              const auto by = [&](auto kernel, bool quantised) {
                return run(
                    cuda, layer, tokens,
                    {.with_shared = with_shared, .quantised = quantised, .split = split, .run = kernel});
              };
              const std::vector<float> tiles = by(experts_groups_of_32, false);
              EXPECT_SAME_BITS(by(experts_few_groups, false), tiles);
              EXPECT_SAME_BITS(by(experts_few_groups, true), tiles);
            }
          }
        }
      }
    }
  }
}

TEST(FewGroupsSm90, AgreeWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const auto& [width, inner] : {std::pair{256, 384}, {128, 128}, {640, 1152}}) {
    const Geometry geometry = geometry_of(width, inner, 9);
    const Layer layer(cuda, geometry);
    for (const std::int64_t num_rows : {1, 2, 5, 8}) {
      for (const ExpertSplit split : {kWhole, kBoth, kShared, kRouted}) {
        Tokens tokens(geometry, num_rows, 3, 5);
        spread(tokens);
        EXPECT_CLOSE(run(cuda, layer, tokens, {.split = split, .run = experts_few_groups}),
                     reference(layer, tokens, {.split = split}), kRounded)
            << width << " x " << inner << ", " << num_rows << " rows";
      }
    }
  }
}

/// The kernels that a call of so many tokens takes.
TEST(FewGroupsSm90, TokensAmongManyAreTheSame) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Geometry geometry = geometry_of(640, 384, 24);
  const Layer layer(cuda, geometry);
  constexpr std::int64_t kRows = 600;
  const Tokens tokens(geometry, kRows, 6, 8);
  const auto whole = run(cuda, layer, tokens);
  for (const auto& [begin, end] :
       {std::pair{0, 1}, {1, 3}, {5, 9}, {100, 106}, {300, 308}, {590, 599}, {0, 64}, {599, 600}}) {
    SCOPED_TRACE(fmt::format("rows [{}, {})", begin, end));
    const auto part = run(cuda, layer, tokens.cut(begin, end));
    EXPECT_SAME_BITS(part,
                     std::span(whole).subspan(static_cast<std::size_t>(begin * geometry.width), part.size()));
  }
}

/// Ranks with some of the experts: each its own terms of the sums.
TEST(FewGroupsSm90, TokensOfARank) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Geometry geometry = geometry_of(256, 384, 8);
  const Layer layer(cuda, geometry);
  for (const std::int64_t num_rows : {1, 6}) {
    const Tokens tokens(geometry, num_rows, 3, 3);
    for (const std::int64_t first : {0, 4}) {
      const auto by = [&](auto kernel) {
        return run(cuda, layer, tokens,
                   {.split = kShared, .first_expert = first, .num_experts = 4, .run = kernel});
      };
      EXPECT_SAME_BITS(by(experts_few_groups), by(experts_groups_of_32));
    }
  }
}

TEST(FewGroupsSm90, NaNStaysInItsRow) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, geometry_of(256, 384, 7));
  const std::int64_t width = layer.geometry().width;
  for (const std::int64_t num_rows : {1, 2, 8}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 6);
    tokens.x[static_cast<std::size_t>((num_rows - 1) * width + 3)] = std::nanf("");
    for (const bool quantised : {false, true}) {
      const auto out = run(cuda, layer, tokens, {.quantised = quantised, .run = experts_few_groups});
      for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(std::isnan(out[i]), static_cast<std::int64_t>(i) / width == num_rows - 1) << i;
    }
  }
}

/// Scales of weights from end to end, NaN among them.
TEST(FewGroupsSm90, EveryScaleIsAsInTiles) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, geometry_of(256, 384, 5));
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i)
      scales[i] = static_cast<std::uint8_t>(i % 4 == row % 4 ? (row * groups + i) % 256 : 120 + i % 7);
  });
  const Tokens tokens(layer.geometry(), 3, 4, 17);
  EXPECT_SAME_BITS(run(cuda, layer, tokens, {.run = experts_few_groups}),
                   run(cuda, layer, tokens, {.run = experts_groups_of_32}));
}

/// No token has any expert; then the shared one is all there is.
TEST(FewGroupsSm90, DesertedExperts) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, geometry_of(256, 384, 7));
  for (const std::int64_t num_rows : {1, 5}) {
    Tokens tokens(layer.geometry(), num_rows, 3, 12);
    std::ranges::fill(tokens.ids, -1);
    const auto none = run(cuda, layer, tokens, {.with_shared = false, .run = experts_few_groups});
    EXPECT_EQ(none, std::vector<float>(none.size(), 0.0F));
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.run = experts_few_groups}),
                     run(cuda, layer, tokens, {.run = experts_groups_of_32}));
  }
}

/// Each of many calls gives the same bits, of which the next call's copies begin early.
TEST(FewGroupsSm90, ManyCallsGiveTheSameBits) {
  BALEEN_NEEDS_GPU();
  constexpr int kCalls = 400;
  TestCuda cuda;
  const Layer layer(cuda, geometry_of(5120, 1152, 12));
  for (const std::int64_t num_rows : {1, 2, 6}) {
    const Tokens tokens(layer.geometry(), num_rows, 6, 31);
    const std::vector<float> want = run(cuda, layer, tokens, {.run = experts_groups_of_32});
    Call call(cuda, layer, tokens, {.run = experts_few_groups});
    int num_wrong = 0;
    for (int i = 0; i < kCalls; ++i) num_wrong += test::bit_difference(call.run(), want).empty() ? 0 : 1;
    EXPECT_EQ(num_wrong, 0) << num_rows << " rows";
  }
}

/// Of DeepSeek-V4.1's Flash whole, or a part of each expert: no GPU is asked.
bool takes(std::int64_t num_rows, std::int64_t inner) {
  constexpr std::int64_t kWidth = 5120, kSelected = 6;
  alignas(16) static constexpr std::byte kNowhere[16] = {};
  const auto matrix = [&](WeightFormat format, std::int64_t rows, std::int64_t cols) {
    return WeightMatrix{.format = format,
                        .rows = rows,
                        .cols = cols,
                        .data = kNowhere,
                        .group_scales = reinterpret_cast<const std::uint8_t*>(kNowhere),
                        .activation_group = kSmallActivationGroup};
  };
  const auto expert = [&](WeightFormat format) {
    return ExpertWeights{.w1 = matrix(format, inner, kWidth),
                         .w2 = matrix(format, kWidth, inner),
                         .w3 = matrix(format, inner, kWidth)};
  };
  const std::vector<ExpertWeights> routed{expert(WeightFormat::kFp4)};
  const ExpertWeights shared = expert(WeightFormat::kFp8x32);
  constexpr int kSms = 132;
  return !why_not_few_groups({.x = View<const Bf16Bits, 2>(nullptr, {num_rows, kWidth}),
                              .ids = {nullptr, {num_rows, kSelected}},
                              .routed = routed,
                              .shared = &shared,
                              .out = View<Bf16Bits, 2>(nullptr, {num_rows, kWidth})},
                             kSms);
}

TEST(FewGroupsSm90, TakeWhatSharedMemoryHasRoomFor) {
  for (const std::int64_t num_rows : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    SCOPED_TRACE(num_rows);
    EXPECT_EQ(takes(num_rows, 1152), num_rows <= 8);
    EXPECT_EQ(takes(num_rows, 2304), num_rows <= 4);
  }
}

TEST(FewGroupsSm90, TheirScratchIsPlanned) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {1, 8}) {
    TestCuda cuda;
    const Layer layer(cuda, geometry_of(256, 384, 7));
    Call call(cuda, layer, Tokens(layer.geometry(), num_rows, 3, 5), {.run = experts_few_groups});
    (void)call.run();
    EXPECT_LE(cuda.context().scratch.peak_bytes(), call.scratch_bytes()) << num_rows;
  }
}

}  // namespace
}  // namespace baleen::sm90
