// Experts on the GPU: against plain loops over formats, geometries and numbers of tokens; a row's bits in
// whatever batch; padding rows, crowded and deserted experts, clamps, scales far apart, rows that are not
// finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "ops/gather_rows/cuda/gather_rows.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "ops/route/cuda/route.h"
#include "tests/support/declared_launch.h"
#include "tests/support/expert_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::random_values;
using test::RandomWeight;
using test::run_declared;
using test::TestCuda;
TEST(ExpertsOnGpu, AgreeWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const std::pair<WeightFormat, WeightFormat> formats[] = {{WeightFormat::kFp4, WeightFormat::kFp8},
                                                           {WeightFormat::kFp8, WeightFormat::kFp8},
                                                           {WeightFormat::kNvfp4, WeightFormat::kFp8},
                                                           {WeightFormat::kBF16, WeightFormat::kBF16}};
  for (const auto& [routed, shared] : formats) {
    const Layer layer(cuda, {.routed = routed, .shared = shared});
    for (const std::int64_t num_rows : {1, 2, 9, 70}) {
      for (const bool with_shared : {false, true}) {
        SCOPED_TRACE(fmt::format("{} weights, {} rows, {} shared expert", weight_format_name(routed),
                                 num_rows, with_shared ? "with" : "without"));
        const Tokens tokens(layer.geometry(), num_rows, 3, 5);
        EXPECT_CLOSE(run(cuda, layer, tokens, {.with_shared = with_shared}),
                     reference(layer, tokens, {.with_shared = with_shared}), kRounded);
      }
    }
  }
}

TEST(ExpertsOnGpu, GeometriesOfSmallModels) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  // Also one block of 128 in either direction, an odd number of slices, and rows that fill no whole item.
  const Geometry geometries[] = {{256, 128, 8}, {256, 256, 16}, {128, 128, 3}, {384, 640, 4}, {640, 384, 4}};
  for (Geometry geometry : geometries) {
    for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kNvfp4}) {
      geometry.routed = routed;
      const Layer layer(cuda, geometry);
      for (const std::int64_t num_rows : {1, 3, 80}) {
        SCOPED_TRACE(fmt::format("{} weights, {} wide, {} inside, {} rows", weight_format_name(routed),
                                 geometry.width, geometry.inner, num_rows));
        const Tokens tokens(geometry, num_rows, 2, 6);
        EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
      }
    }
  }
}

TEST(ExpertsOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed :
       {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kNvfp4, WeightFormat::kBF16}) {
    const Geometry geometry{.width = 512,
                            .inner = 384,
                            .routed = routed,
                            .shared = routed == WeightFormat::kBF16 ? routed : WeightFormat::kFp8};
    const Layer layer(cuda, geometry);
    const Tokens tokens(geometry, 300, 4, 8);  // more rows an expert than a tile has
    const auto whole = run(cuda, layer, tokens);
    const std::int64_t width = geometry.width;
    for (const auto& [begin, end] :
         {std::pair{0, 1}, {1, 8}, {8, 24}, {8, 72}, {0, 65}, {100, 230}, {230, 300}, {299, 300}}) {
      SCOPED_TRACE(fmt::format("{} weights, rows [{}, {})", weight_format_name(routed), begin, end));
      const auto part = run(cuda, layer, tokens.cut(begin, end));
      EXPECT_SAME_BITS(part, std::span(whole).subspan(static_cast<std::size_t>(begin * width), part.size()));
    }
    EXPECT_SAME_BITS(run(cuda, layer, tokens), whole);
  }
}

TEST(ExpertsOnGpu, ATokenAloneIsTheSame) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  // Also odd numbers of slices, and more slots than the kernels of a single token take.
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kNvfp4}) {
    for (const auto& [width, inner] : {std::pair{512, 384}, {384, 128}, {128, 1152}}) {
      const Geometry geometry{.width = width, .inner = inner, .num_experts = 12, .routed = routed};
      const Layer layer(cuda, geometry);
      for (const std::int64_t num_selected : {1, 2, 5, 6, 8, 9}) {
        Tokens tokens(geometry, 3, num_selected, 31);
        tokens.ids[static_cast<std::size_t>(2 * num_selected - 1)] = -1;  // row 1 has a slot less
        for (const bool with_shared : {false, true}) {
          const auto whole = run(cuda, layer, tokens, {.with_shared = with_shared});
          for (const std::int64_t row : {0, 1}) {
            SCOPED_TRACE(fmt::format("{} weights, {} x {}, {} slots, {} shared expert, row {}",
                                     weight_format_name(routed), width, inner, num_selected,
                                     with_shared ? "with" : "without", row));
            EXPECT_SAME_BITS(run(cuda, layer, tokens.cut(row, row + 1), {.with_shared = with_shared}),
                             std::span(whole).subspan(static_cast<std::size_t>(row * width),
                                                      static_cast<std::size_t>(width)));
          }
        }
      }
    }
  }
}

TEST(ExpertsOnGpu, QuantisedRowsAreTheSame) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {1, 5, 90}) {
    const Tokens tokens(layer.geometry(), num_rows, 3, 11);
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.quantised = true}), run(cuda, layer, tokens));
  }
}

/// Of DeepSeek-V4.1, and of a repack of it: FP4 and FP8 experts.
constexpr Geometry of_v41(WeightFormat routed = WeightFormat::kFp4) {
  return {.routed = routed, .shared = WeightFormat::kFp8x32, .group = kSmallActivationGroup};
}

TEST(ExpertsOnGpu, GroupsOf32AgreeWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8x32}) {
    for (const auto& [width, inner] : {std::pair{256, 384}, {128, 128}, {640, 1152}}) {
      Geometry geometry = of_v41(routed);
      geometry.width = width;
      geometry.inner = inner;
      const Layer layer(cuda, geometry);
      for (const std::int64_t num_rows : {1, 2, 9, 70}) {
        for (const bool with_shared : {false, true}) {
          SCOPED_TRACE(fmt::format("{} weights, {} x {}, {} rows, {} shared expert",
                                   weight_format_name(routed), width, inner, num_rows,
                                   with_shared ? "with" : "without"));
          Tokens tokens(geometry, num_rows, 3, 5);
          // Groups beside each other are binades apart; some are zero, some below the least scale.
          for (std::size_t i = 0; i < tokens.x.size(); ++i) {
            const float factors[] = {1.0F, 64.0F, 0.0F, 0x1p-18F, 0x1p6F};
            tokens.x[i] *= factors[i / 32 % 5];
          }
          const auto want = reference(layer, tokens, {.with_shared = with_shared});
          EXPECT_CLOSE(run(cuda, layer, tokens, {.with_shared = with_shared}), want, kRounded);
          EXPECT_SAME_BITS(run(cuda, layer, tokens, {.with_shared = with_shared, .quantised = true}),
                           run(cuda, layer, tokens, {.with_shared = with_shared}));
        }
      }
    }
  }
}

TEST(ExpertsOnGpu, GroupsOf32RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8x32}) {
    const Geometry geometry = of_v41(routed);
    const Layer layer(cuda, geometry);
    const Tokens tokens(geometry, 300, 4, 8);
    const auto whole = run(cuda, layer, tokens);
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 8}, {8, 24}, {0, 65}, {100, 230}, {299, 300}}) {
      SCOPED_TRACE(fmt::format("{} weights, rows [{}, {})", weight_format_name(routed), begin, end));
      const auto part = run(cuda, layer, tokens.cut(begin, end));
      EXPECT_SAME_BITS(
          part, std::span(whole).subspan(static_cast<std::size_t>(begin * geometry.width), part.size()));
    }
  }
}

TEST(ExpertsOnGpu, GroupsOf32KeepNaNInItsRow) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, of_v41());
  const std::int64_t width = layer.geometry().width;
  Tokens tokens(layer.geometry(), 40, 2, 6);
  tokens.x[static_cast<std::size_t>(width + 3)] = std::nanf("");
  const auto out = run(cuda, layer, tokens);
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(std::isnan(out[i]), static_cast<std::int64_t>(i) / width == 1) << i;
}

/// Six of the experts of a layer, of the released widths.
TEST(ExpertsOnGpu, GroupsOf32OfTheReleasedGeometry) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Geometry geometry = of_v41();
  geometry.width = 5120;
  geometry.inner = 2304;
  const Layer layer(cuda, geometry);
  for (const std::int64_t num_rows : {1, 33}) {
    const Tokens tokens(geometry, num_rows, 6, 21);
    EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded) << num_rows << " rows";
  }
}

TEST(ExpertsOnGpu, PaddingRowsHaveNoExpert) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {4, 100}) {
    const Tokens tokens(layer.geometry(), num_rows, 3, 12);
    Tokens padded = tokens;
    const std::int64_t first_padding = num_rows - 3;
    std::fill(padded.ids.begin() + first_padding * 3, padded.ids.end(), -1);
    const auto count = static_cast<std::size_t>(first_padding * layer.geometry().width);
    const auto want = run(cuda, layer, tokens);
    const auto got = run(cuda, layer, padded);
    EXPECT_SAME_BITS(std::span(got).first(count), std::span(want).first(count));
    for (const float value : std::span(got).subspan(count)) EXPECT_TRUE(std::isfinite(value));
    // No token has any expert.
    std::fill(padded.ids.begin(), padded.ids.end(), -1);
    for (const Tokens& deserted : {padded, padded.cut(0, 1)}) {
      const auto none = run(cuda, layer, deserted, {.with_shared = false});
      EXPECT_EQ(none, std::vector<float>(none.size(), 0.0F));
    }
  }
}

TEST(ExpertsOnGpu, AllTokensHaveTheSameExperts) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {40, 150}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 13);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      tokens.ids[static_cast<std::size_t>(2 * row)] = 6;
      tokens.ids[static_cast<std::size_t>(2 * row + 1)] = 0;
    }
    EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
  }
}

TEST(ExpertsOnGpu, ClampActsAndZeroLimitDoesNot) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  Tokens tokens(layer.geometry(), 2, 2, 4);
  for (float& value : tokens.x) value *= 512.0F;
  const auto clamped = run(cuda, layer, tokens, {.limit = 10.0F});
  EXPECT_CLOSE(clamped, reference(layer, tokens, {.limit = 10.0F}), kRounded);
  const auto free = run(cuda, layer, tokens, {.limit = 0.0F});
  EXPECT_CLOSE(free, reference(layer, tokens, {.limit = 0.0F}), kRounded);
  EXPECT_NE(test::difference(free, clamped, {.norm = 0.1}), "");
}

TEST(ExpertsOnGpu, ScalesFifteenBinadesApartAreExact) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, {});
  const Tokens tokens(layer.geometry(), 9, 3, 17);
  std::mt19937 random(3);
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i) {
      scales[i] = static_cast<std::uint8_t>(113 + (row % 2 == 0 ? random() % 15 : 14 * (random() % 2)));
    }
  });
  EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
}

TEST(ExpertsOnGpu, ScalesFartherApartCountAsNothing) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, {});
  const Tokens tokens(layer.geometry(), 9, 3, 18);
  // What is dropped is below 2^-14 of the row's largest values.
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i) {
      scales[i] = static_cast<std::uint8_t>(i == row % groups ? 127 : (row + i) % 3 == 0 ? 0 : 127 - 17);
    }
  });
  EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
}

TEST(ExpertsOnGpu, NaNStaysInItsRow) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  const std::int64_t width = layer.geometry().width;
  for (const std::int64_t num_rows : {3, 90}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 6);
    tokens.x[static_cast<std::size_t>(width + 3)] = std::nanf("");
    const auto out = run(cuda, layer, tokens);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        ASSERT_EQ(std::isnan(out[static_cast<std::size_t>(row * width + i)]), row == 1)
            << "row " << row << ", " << i;
      }
    }
  }
}

TEST(ExpertsOnGpu, NobodyAtAll) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  BALEEN_ARCH::experts({.x = View<const Bf16Bits, 2>(nullptr, {0, 256}),
                        .ids = {nullptr, {0, 2}},
                        .weights = {static_cast<const float*>(nullptr), {0, 2}},
                        .routed = layer.device(),
                        .out = View<Bf16Bits, 2>(nullptr, {0, 256})},
                       cuda.context());
  cuda.synchronise();
}

TEST(ExpertsOnGpu, ReleasedGeometry) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kNvfp4}) {
    SCOPED_TRACE(weight_format_name(routed));
    const Geometry geometry{.width = 4096, .inner = 2048, .num_experts = 4, .routed = routed};
    const Layer layer(cuda, geometry);
    const Tokens tokens(geometry, 2, 3, 21);
    EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
    const Tokens many(geometry, 200, 3, 22);
    const auto whole = run(cuda, layer, many);
    const auto part = run(cuda, layer, many.cut(150, 152));
    EXPECT_SAME_BITS(part, std::span(whole).subspan(150 * 4096, part.size()));
    EXPECT_CLOSE(part, reference(layer, many.cut(150, 152)), kRounded);
  }
}

/// Each binade of scales alone, zero and the smallest ones, which are subnormal, among them.
TEST(ExpertsOnGpu, EveryScaleOfNvfp4Counts) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, {.num_experts = 3, .routed = WeightFormat::kNvfp4});
  const Tokens tokens(layer.geometry(), 20, 2, 9);
  for (int first = 0; first < 120; first += 8) {
    SCOPED_TRACE(first);
    layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
      for (std::int64_t group = 0; group < groups; ++group)
        scales[group] = static_cast<std::uint8_t>(first + (row + group) % 8);
    });
    EXPECT_CLOSE(run(cuda, layer, tokens, {.with_shared = false}),
                 reference(layer, tokens, {.with_shared = false}), kRounded);
  }
}

/// Ranks that share the experts: each returns its own terms, in float32 and in the order of one rank.
/// Each of many calls gives what its tokens get alone: a stage that is written to before all have read it
/// shows in few of them.
TEST(ExpertsOnGpu, ManyCallsGiveTheSameBits) {
  BALEEN_NEEDS_GPU();
  constexpr int kCalls = 400;
  TestCuda cuda;
  const Layer layer(cuda, {.width = 4096, .inner = 2048, .num_experts = 12});
  for (const std::int64_t num_rows : {3, 16, 64, 150}) {
    const Tokens tokens(layer.geometry(), num_rows, 6, 31);
    std::vector<float> want;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const std::vector<float> alone = run(cuda, layer, tokens.cut(row, row + 1));
      want.insert(want.end(), alone.begin(), alone.end());
    }
    Call call(cuda, layer, tokens);
    int num_wrong = 0;
    for (int i = 0; i < kCalls; ++i) num_wrong += test::bit_difference(call.run(), want).empty() ? 0 : 1;
    EXPECT_EQ(num_wrong, 0) << num_rows << " rows";
  }
}

TEST(ExpertsOnGpu, ARankAddsUpItsShare) {
  BALEEN_NEEDS_GPU();
  for (const WeightFormat format :
       {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kNvfp4, WeightFormat::kBF16}) {
    const Geometry geometry{.num_experts = 8,
                            .routed = format,
                            .shared = format == WeightFormat::kBF16 ? format : WeightFormat::kFp8};
    TestCuda cuda;
    const Layer layer(cuda, geometry);
    constexpr std::int64_t kShare = 4;
    for (const std::int64_t num_rows : {1, 5, 90}) {
      const Tokens tokens(geometry, num_rows, 2, 3);
      const std::vector<float> whole = run(cuda, layer, tokens, {.with_shared = false});
      const Bf16Bits* x = cuda.upload_bf16(tokens.x);
      const std::int32_t* ids = cuda.upload(tokens.ids);
      const float* weights = cuda.upload(tokens.weights);
      std::vector<std::vector<float>> sums;
      for (const std::int64_t first : {std::int64_t{0}, kShare}) {
        float* out = cuda.allocate<float>(num_rows * geometry.width);
        BALEEN_ARCH::experts(
            {.x = View<const Bf16Bits, 2>(x, {num_rows, geometry.width}),
             .ids = {ids, {num_rows, 2}},
             .weights = ConstActivations<2>(weights, {num_rows, 2}),
             .routed = std::span(layer.device()).subspan(static_cast<std::size_t>(first), kShare),
             .swiglu_limit = 10.0F,
             .out = Activations<2>(out, {num_rows, geometry.width}),
             .first_expert = first,
             .partial_sums = true},
            cuda.context());
        sums.push_back(cuda.download(out, num_rows * geometry.width));
      }
      for (std::size_t i = 0; i < whole.size(); ++i) {  // of two terms: their order does not matter
        ASSERT_EQ(whole[i], round_bf16(sums[0][i] + sums[1][i])) << num_rows << " rows, value " << i;
      }
      for (std::int64_t row = 0; row < num_rows; ++row) {
        const auto at = static_cast<std::size_t>(2 * row);
        if (tokens.ids[at] >= kShare || tokens.ids[at + 1] >= kShare) continue;
        for (std::int64_t i = 0; i < geometry.width; ++i)
          ASSERT_EQ(sums[1][static_cast<std::size_t>(row * geometry.width + i)], 0.0F);
      }
    }
  }
}

/// The shared expert alone, as ranks that send rows to routed ones compute it.
TEST(ExpertsOnGpu, TheSharedExpertAlone) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  const std::int64_t width = layer.geometry().width;
  for (const std::int64_t num_rows : {1, 5, 90}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 3);
    std::ranges::fill(tokens.ids, -1);
    const std::vector<float> expected = run(cuda, layer, tokens);
    const Bf16Bits* x = cuda.upload_bf16(tokens.x);
    auto* out = cuda.allocate<Bf16Bits>(num_rows * width);
    BALEEN_ARCH::experts({.x = View<const Bf16Bits, 2>(x, {num_rows, width}),
                          .ids = {nullptr, {num_rows, 0}},
                          .routed = layer.device(),
                          .shared = &layer.device_shared(),
                          .swiglu_limit = 10.0F,
                          .out = View<Bf16Bits, 2>(out, {num_rows, width})},
                         cuda.context());
    EXPECT_TRUE(cuda.download_bf16(out, num_rows * width) == expected) << num_rows;
  }
}

/// Another x each time, made right before the `route`; nothing in between waits for the host. With the order
/// of launches, which says that x may be read early.
void expect_x_is_read_beside_the_route(const Geometry& geometry) {
  TestCuda cuda;
  const Layer layer(cuda, geometry);
  constexpr std::int64_t kSelected = 4, kCalls = 300, kScaleStride = 4;
  const std::int64_t width = geometry.width;
  for (const std::int64_t num_rows : {1, 3, 4}) {
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    const std::vector<SequenceSlice> slices{{0, num_rows, 5, {}, {}}};
    cuda.set_batch({tokens, slices});
    const auto values = [&](std::int64_t count, std::uint32_t seed) {
      return random_values(static_cast<std::size_t>(count), seed, 0.5F);
    };
    const float* logits = cuda.upload(values(num_rows * geometry.num_experts, 1));
    const Bf16Bits* const sources[] = {cuda.upload_bf16(values(num_rows * width, 2)),
                                       cuda.upload_bf16(values(num_rows * width, 3))};
    const View<Bf16Bits, 2> made(cuda.allocate<Bf16Bits>(num_rows * width), {num_rows, width});
    const View<const Bf16Bits, 2> x(made.data(), {num_rows, width});
    const Fp8Rows x_fp8{cuda.allocate<std::uint8_t>(num_rows * width),
                        cuda.allocate<float>(width / kActivationGroup * kScaleStride), kScaleStride};
    const View<std::int32_t, 2> ids(cuda.allocate<std::int32_t>(num_rows * kSelected), {num_rows, kSelected});
    const Activations<2> weights(cuda.allocate<float>(num_rows * kSelected), {num_rows, kSelected});
    std::vector<RowPair> pairs;
    for (std::int32_t row = 0; row < num_rows; ++row) pairs.push_back({row, row});
    Bf16Bits* const outs = cuda.allocate<Bf16Bits>(kCalls * num_rows * width);
    LaunchOrder order(cuda.context().stream);
    const auto call = [&](std::int64_t number, bool quantised, bool early) {
      CudaContext& context = cuda.context();
      context.stream.order = early ? &order : nullptr;
      const Bf16Bits* source = sources[number % 2];
      run_declared<ops::GatherRows>(
          BALEEN_ARCH::gather_rows,
          {.from = View<const Bf16Bits, 2>(source, {num_rows, width}), .pairs = pairs, .to = made}, context);
      if (quantised) {
        if (early) order.begin_operation().read(x).write(x_fp8, num_rows, width);
        BALEEN_ARCH::quantise_rows(x, x_fp8, context);
      }
      run_declared<ops::Route>(BALEEN_ARCH::route,
                               {.logits = ConstActivations<2>(logits, {num_rows, geometry.num_experts}),
                                .ids = ids,
                                .weights = weights},
                               context);
      Bf16Bits* const out = outs + number * num_rows * width;
      ASSERT_EQ(context.stream.is_settled(Accesses().read(x).read(x_fp8, num_rows, width)), early);
      run_declared<ops::Experts>(BALEEN_ARCH::experts,
                                 {.x = x,
                                  .x_fp8 = quantised ? x_fp8 : Fp8Rows(),
                                  .ids = ids,
                                  .weights = weights,
                                  .routed = layer.device(),
                                  .shared = &layer.device_shared(),
                                  .swiglu_limit = 10.0F,
                                  .out = View<Bf16Bits, 2>(out, {num_rows, width})},
                                 context);
    };
    const auto result = [&](std::int64_t number) {
      return cuda.download_bf16(outs + number * num_rows * width, num_rows * width);
    };
    for (const bool quantised : {false, true}) {
      if (quantised && geometry.group != kActivationGroup) continue;  // nothing makes such rows
      for (const std::int64_t i : {0, 1}) call(i, quantised, false);
      const std::vector<float> expected[] = {result(0), result(1)};
      ASSERT_FALSE(expected[0] == expected[1]);
      for (std::int64_t i = 0; i < kCalls; ++i) call(i, quantised, true);
      for (std::int64_t i = 0; i < kCalls; ++i) {
        EXPECT_TRUE(result(i) == expected[i % 2])
            << num_rows << " rows, call " << i << (quantised ? ", in FP8" : "");
      }
    }
  }
}

TEST(ExpertsOnGpu, XIsReadBesideTheRoute) {
  BALEEN_NEEDS_GPU();
  expect_x_is_read_beside_the_route({.width = 512, .inner = 384, .num_experts = 16});
}

/// By the dispatch of few tokens.
TEST(ExpertsOnGpu, XIsDispatchedBesideTheRoute) {
  BALEEN_NEEDS_GPU();
  expect_x_is_read_beside_the_route(
      {.width = 1280, .inner = 384, .num_experts = 16, .routed = WeightFormat::kNvfp4});
}

TEST(ExpertsOnGpu, XOfGroupsOf32IsReadBesideTheRoute) {
  BALEEN_NEEDS_GPU();
  Geometry geometry = of_v41();
  geometry.width = 512;
  geometry.num_experts = 16;
  expect_x_is_read_beside_the_route(geometry);
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
