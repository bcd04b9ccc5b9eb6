// Experts in the stated order on the GPU: every bit of the specification, whichever variant, tile, batch or
// place; the shared expert beside them as close as ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "tests/support/expert_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr ExpertSplit kRouted{.routed = true};

/// The variants that add up in the stated order, of activations with a scale for `group` values.
std::vector<const CudaVariant<ops::Experts>*> stated_variants(int group = kActivationGroup) {
  std::vector<const CudaVariant<ops::Experts>*> found;
  for (const CudaVariant<ops::Experts>& variant : experts_variants()) {
    const bool small = variant.name.ends_with("groups_of_32");
    if (variant.name.find("/stated") != std::string_view::npos && small == (group != kActivationGroup))
      found.push_back(&variant);
  }
  EXPECT_FALSE(found.empty());
  return found;
}

/// NaNs differ between processors; any will do.
std::vector<float> with_one_nan(std::vector<float> values) {
  for (float& value : values)
    if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  return values;
}

/// All variants give the specification's bits; of routed experts alone.
void expect_stated_bits(TestCuda& cuda, const Layer& layer, const Tokens& tokens, Options options) {
  options.sums = ExpertSums::kStated;
  options.with_shared = false;
  Options plain = options;
  plain.at = {};
  const std::vector<float> want = with_one_nan(reference(layer, tokens, plain));
  for (const CudaVariant<ops::Experts>* variant : stated_variants(layer.geometry().group)) {
    SCOPED_TRACE(variant->name);
    options.run = variant->run;
    EXPECT_SAME_BITS(with_one_nan(run(cuda, layer, tokens, options)), want);
  }
}

TEST(StatedExpertsOnGpu, EveryBitIsAsStated) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 65, 300}) {
    SCOPED_TRACE(num_rows);
    const Tokens tokens(layer.geometry(), num_rows, 3, 5);
    expect_stated_bits(cuda, layer, tokens, {});
    if (num_rows > 65) continue;
    expect_stated_bits(cuda, layer, tokens, {.split = kRouted});
    expect_stated_bits(cuda, layer, tokens, {.quantised = true});
  }
}

Geometry of_v41(std::int64_t width, std::int64_t inner, int num_experts = 7) {
  return {.width = width,
          .inner = inner,
          .num_experts = num_experts,
          .shared = WeightFormat::kFp8x32,
          .group = kSmallActivationGroup};
}

TEST(StatedExpertsOnGpu, OfGroupsEveryBitIsAsStated) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  // Also less than a chunk of 32 groups, chunks that are not whole, outputs that fill no whole block.
  for (const auto& [width, inner] : {std::pair{256, 384}, {128, 128}, {1152, 640}, {5120, 2304}}) {
    const Layer layer(cuda, of_v41(width, inner));
    for (const std::int64_t num_rows : {1, 2, 3, 8, 9, 64, 130}) {
      if (width > 2000 && num_rows > 2) continue;
      SCOPED_TRACE(fmt::format("{} wide, {} inside, {} rows", width, inner, num_rows));
      Tokens tokens(layer.geometry(), num_rows, 3, 5);
      for (std::size_t i = 0; i < tokens.x.size(); ++i) {
        const float factors[] = {1.0F, 64.0F, 0.0F, 0x1p-18F, 0x1p6F};
        tokens.x[i] *= factors[i / 32 % 5];
      }
      expect_stated_bits(cuda, layer, tokens, {});
      expect_stated_bits(cuda, layer, tokens, {.split = kRouted});
      expect_stated_bits(cuda, layer, tokens, {.quantised = true});
    }
  }
}

TEST(StatedExpertsOnGpu, OfGroupsExtremeValues) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, of_v41(256, 384));
  std::mt19937 random(7);
  for (const bool all_scales : {false, true}) {
    if (all_scales) {
      layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
        for (std::int64_t i = 0; i < groups; ++i)
          scales[i] = static_cast<std::uint8_t>(row % 3 == 0 ? random() % 24 : random() % 255);
      });
    }
    for (const std::int64_t num_rows : {3, 70}) {
      Tokens tokens(layer.geometry(), num_rows, 3, static_cast<std::uint32_t>(num_rows));
      for (float& value : tokens.x) value = std::ldexp(value, static_cast<int>(random() % 40) - 20);
      const std::size_t width = 256;
      tokens.x[width + 130] = std::numeric_limits<float>::quiet_NaN();
      tokens.x[2 * width + 5] = std::numeric_limits<float>::infinity();
      tokens.x[2 * width + 6] = -std::numeric_limits<float>::infinity();
      SCOPED_TRACE(
          fmt::format("{} rows, {}", num_rows, all_scales ? "all scales" : "scales of a few binades"));
      expect_stated_bits(cuda, layer, tokens, {.limit = all_scales ? 0.0F : 10.0F});
      expect_stated_bits(cuda, layer, tokens, {.limit = 0.0F, .split = kRouted});
    }
  }
}

/// The shared expert beside them is as close as ever.
TEST(StatedExpertsOnGpu, OfGroupsWithASharedExpert) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, of_v41(256, 384));
  for (const std::int64_t num_rows : {1, 9, 70}) {
    const Tokens tokens(layer.geometry(), num_rows, 3, 5);
    Options options{.sums = ExpertSums::kStated};
    options.run = stated_variants(kSmallActivationGroup).front()->run;
    EXPECT_CLOSE(run(cuda, layer, tokens, options), reference(layer, tokens, options), kRounded) << num_rows;
  }
}

/// One slice in either direction, odd numbers of them, chunks of four, outputs that fill no whole block.
TEST(StatedExpertsOnGpu, GeometriesOfSmallModels) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Geometry geometries[] = {{256, 128, 8},  {128, 128, 3}, {384, 640, 4},  {640, 384, 4},
                                 {128, 1152, 5}, {512, 512, 7}, {1024, 512, 4}, {640, 1024, 5}};
  for (const Geometry& geometry : geometries) {
    const Layer layer(cuda, geometry);
    for (const std::int64_t num_rows : {1, 3, 80}) {
      SCOPED_TRACE(fmt::format("{} wide, {} inside, {} rows", geometry.width, geometry.inner, num_rows));
      const Tokens tokens(geometry, num_rows, 2, 6);
      expect_stated_bits(cuda, layer, tokens, {});
      expect_stated_bits(cuda, layer, tokens, {.split = kRouted});
    }
  }
}

TEST(StatedExpertsOnGpu, ReleasedGeometries) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const auto& [width, inner] : {std::pair{4096, 2048}, {7168, 3072}}) {
    SCOPED_TRACE(width);
    const Layer layer(cuda, {.width = width, .inner = inner, .num_experts = 4});
    for (const std::int64_t num_rows : {1, 2})
      expect_stated_bits(cuda, layer, Tokens(layer.geometry(), num_rows, 3, 21), {});
  }
}

/// Values over 40 binades, so that codes of all exponents are there; infinities, NaN, scales from end to end.
TEST(StatedExpertsOnGpu, ExtremeValues) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, {});
  std::mt19937 random(7);
  const auto expect = [&](const char* what, float limit) {
    SCOPED_TRACE(what);
    for (const std::int64_t num_rows : {1, 3, 70}) {
      Tokens tokens(layer.geometry(), num_rows, 3, static_cast<std::uint32_t>(num_rows));
      for (float& value : tokens.x) value = std::ldexp(value, static_cast<int>(random() % 40) - 20);
      const auto at = [&](std::int64_t row, std::int64_t column) -> float& {
        return tokens.x[static_cast<std::size_t>(row * layer.geometry().width + column)];
      };
      if (num_rows > 1) {
        at(1, 130) = std::numeric_limits<float>::quiet_NaN();
        at(2, 5) = std::numeric_limits<float>::infinity();
        at(2, 6) = -std::numeric_limits<float>::infinity();
      }
      expect_stated_bits(cuda, layer, tokens, {.limit = limit});
      expect_stated_bits(cuda, layer, tokens, {.limit = limit, .split = kRouted});
    }
  };
  expect("scales of a few binades", 10.0F);
  expect("no limit", 0.0F);
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i)
      scales[i] = static_cast<std::uint8_t>(row % 3 == 0 ? random() % 24 : random() % 255);
  });
  expect("scales from 2^-127 to 2^127", 0.0F);
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i)
      scales[i] = static_cast<std::uint8_t>(row % 50 == 7 && i == row % groups ? 255 : 120 + random() % 8);
  });
  expect("scales that are NaN", 10.0F);
}

TEST(StatedExpertsOnGpu, ExpertsOfOtherRanksAndNone) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {.num_experts = 9});
  for (const std::int64_t num_rows : {1, 6, 90}) {
    SCOPED_TRACE(num_rows);
    Tokens tokens(layer.geometry(), num_rows, 4, 3);
    tokens.ids.front() = -1;
    tokens.ids.back() = -1;
    expect_stated_bits(cuda, layer, tokens, {});
    expect_stated_bits(cuda, layer, tokens, {.first_expert = 3, .num_experts = 4});
    expect_stated_bits(cuda, layer, tokens, {.split = kRouted, .first_expert = 5, .num_experts = 4});
    std::ranges::fill(tokens.ids, -1);
    expect_stated_bits(cuda, layer, tokens, {});
  }
}

TEST(StatedExpertsOnGpu, ExpertsInOtherPlaces) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const std::vector<std::int32_t> expert_at{6, 2, 4, 0, 1, 5, 3};
  const Layer in_order(cuda, {}), placed(cuda, {}, expert_at);
  std::vector<std::int32_t> of_expert(expert_at.size());
  for (std::size_t place = 0; place < expert_at.size(); ++place)
    of_expert[static_cast<std::size_t>(expert_at[place])] = static_cast<std::int32_t>(place);
  const ExpertPlaces places{.of_expert = cuda.upload(of_expert), .count = std::ssize(of_expert)};
  for (const std::int64_t num_rows : {2, 100}) {
    const Tokens tokens(in_order.geometry(), num_rows, 3, 14);
    for (const CudaVariant<ops::Experts>* variant : stated_variants()) {
      Options options{.sums = ExpertSums::kStated, .run = variant->run};
      const auto want = run(cuda, in_order, tokens, options);
      options.places = places;
      EXPECT_SAME_BITS(run(cuda, placed, tokens, options), want);
    }
  }
}

/// With the shared expert, which is close to plain loops, and in any batch and variant the same.
TEST(StatedExpertsOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const auto& [inner, shared_inner, split] : {std::tuple{384, 384, ExpertSplit{}},
                                                   {512, 512, ExpertSplit{}},
                                                   {384, 256, ExpertSplit{.routed = true, .shared = true}}}) {
    const Layer layer(cuda, {.width = 512, .inner = inner, .shared_inner = shared_inner});
    const std::int64_t width = layer.geometry().width;
    const Tokens tokens(layer.geometry(), 300, 4, 8);
    const Options stated{.split = split, .sums = ExpertSums::kStated};
    const auto whole = run(cuda, layer, tokens, stated);
    const auto few = tokens.cut(0, 9);
    EXPECT_CLOSE(std::span(whole).first(static_cast<std::size_t>(9 * width)), reference(layer, few, stated),
                 kRounded);
    for (const CudaVariant<ops::Experts>* variant : stated_variants()) {
      Options options = stated;
      options.run = variant->run;
      for (const auto& [begin, end] :
           {std::pair{0, 1}, {1, 3}, {3, 8}, {8, 72}, {0, 65}, {100, 230}, {299, 300}}) {
        SCOPED_TRACE(fmt::format("{}, rows [{}, {})", variant->name, begin, end));
        const auto part = run(cuda, layer, tokens.cut(begin, end), options);
        EXPECT_SAME_BITS(part,
                         std::span(whole).subspan(static_cast<std::size_t>(begin * width), part.size()));
      }
    }
  }
}

/// A stage of shared memory that is written to before all have read it shows in few calls of many.
TEST(StatedExpertsOnGpu, ManyCallsGiveTheSameBits) {
  BALEEN_NEEDS_GPU();
  constexpr int kCalls = 200;
  TestCuda cuda;
  const Layer layer(cuda, {.width = 4096, .inner = 2048, .num_experts = 12});
  for (const std::int64_t num_rows : {1, 8, 150}) {
    const Tokens tokens(layer.geometry(), num_rows, 6, 31);
    for (const CudaVariant<ops::Experts>* variant : stated_variants()) {
      Call call(cuda, layer, tokens, {.sums = ExpertSums::kStated, .run = variant->run});
      const std::vector<float> want = call.run();
      int num_wrong = 0;
      for (int i = 0; i < kCalls; ++i) num_wrong += test::bit_difference(call.run(), want).empty() ? 0 : 1;
      EXPECT_EQ(num_wrong, 0) << variant->name << ", " << num_rows << " rows";
    }
  }
}

TEST(StatedExpertsOnGpu, TheirScratchIsPlanned) {
  BALEEN_NEEDS_GPU();
  for (const CudaVariant<ops::Experts>* variant : stated_variants()) {
    for (const std::int64_t num_rows : {1, 4, 60, 150}) {
      for (const ExpertSplit split : {ExpertSplit{}, kRouted}) {
        TestCuda cuda;
        const Layer layer(cuda, {});
        Call call(cuda, layer, Tokens(layer.geometry(), num_rows, 3, 5),
                  {.split = split, .sums = ExpertSums::kStated, .run = variant->run});
        (void)call.run();
        EXPECT_LE(cuda.context().scratch.peak_bytes(), call.scratch_bytes()) << variant->name << num_rows;
      }
    }
  }
}

TEST(StatedExpertsOnGpu, VariantsTakeTheirOrderAlone) {
  for (const int group : {kActivationGroup, kSmallActivationGroup}) {
    const std::vector<ExpertWeights> routed(
        2, {.w1 = {.format = WeightFormat::kFp4, .activation_group = group}});
    ExpertsArgs args{
        .x = View<const Bf16Bits, 2>(nullptr, {3, 256}), .ids = {nullptr, {3, 2}}, .routed = routed};
    const auto of_group = stated_variants(group);
    for (const ExpertSums sums : {ExpertSums::kFree, ExpertSums::kStated}) {
      args.sums = sums;
      for (const CudaVariant<ops::Experts>& variant : experts_variants()) {
        const bool stated = variant.name.find("/stated") != std::string_view::npos;
        if (!stated && sums == ExpertSums::kFree) continue;
        const bool want =
            sums == ExpertSums::kStated && std::ranges::find(of_group, &variant) != of_group.end();
        EXPECT_EQ(!variant.why_not(args, DeviceTraits{}), want) << variant.name << ", a scale for " << group;
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
