// Experts: the SIMD version against plain loops over formats, batch shapes and precisions; independence of
// batch; clamps, empty experts and non-finite rows.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include <algorithm>

#include "numeric/bf16.h"
#include "ops/experts/experts.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::random_values;
using test::RandomWeight;

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kInner = 384;
constexpr int kNumExperts = 7;

class Layer {
 public:
  /// `group`: inputs of activations that share a scale.
  Layer(WeightFormat routed, WeightFormat shared, int group = kActivationGroup) : group_(group) {
    for (int expert = 0; expert <= kNumExperts; ++expert) {
      const WeightFormat format = expert < kNumExperts ? routed : shared;
      const auto seed = static_cast<std::uint32_t>(100 * expert);
      ExpertWeights weights{add(format, kInner, kWidth, seed), add(format, kWidth, kInner, seed + 1),
                            add(format, kInner, kWidth, seed + 2)};
      if (expert < kNumExperts) {
        routed_.push_back(weights);
      } else {
        shared_ = weights;
      }
    }
  }

  /// Inputs and inner values in groups `i` of 32 with i % 4 == 3 count 2^18 times more, and the latter are as
  /// much smaller.
  void spread_groups() {
    for (ExpertWeights& expert : routed_) spread(expert);
    spread(shared_);
  }

  [[nodiscard]] const std::vector<ExpertWeights>& routed() const { return routed_; }
  [[nodiscard]] const ExpertWeights& shared() const { return shared_; }

 private:
  static void spread(ExpertWeights& expert) {
    const auto change = [](const WeightMatrix& matrix, int of_rows, int of_columns) {
      const std::int64_t groups = matrix.cols / 32, rows = matrix.format == WeightFormat::kFp4 ? 32 : 1;
      for (std::int64_t i = 0; i < matrix.num_scales(); ++i) {
        // The owner's, which is not const.
        auto& scale = const_cast<std::uint8_t&>(matrix.group_scales[i]);
        if (i / groups / rows % 4 == 3) scale = static_cast<std::uint8_t>(scale + of_rows);
        if (i % groups % 4 == 3) scale = static_cast<std::uint8_t>(scale + of_columns);
      }
    };
    change(expert.w1, 0, 18);
    change(expert.w3, -18, 18);
    change(expert.w2, 0, 18);
  }
  WeightMatrix add(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
    owned_.push_back(std::make_unique<RandomWeight>(format, rows, cols, seed));
    WeightMatrix matrix = owned_.back()->matrix();
    matrix.activation_group = group_;
    return matrix;
  }
  int group_;
  std::vector<std::unique_ptr<RandomWeight>> owned_;
  std::vector<ExpertWeights> routed_;
  ExpertWeights shared_;
};

struct Tokens {
  Tokens(std::int64_t count, std::int64_t num_selected, std::uint32_t seed)
      : num_rows(count),
        selected(num_selected),
        x(random_values(static_cast<std::size_t>(count * kWidth), seed, 0.02F)) {
    std::mt19937 random(seed);
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::int32_t> order(kNumExperts - 1);  // the last expert is never active
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
      std::shuffle(order.begin(), order.end(), random);
      ids.insert(ids.end(), order.begin(), order.begin() + num_selected);
      for (std::int64_t k = 0; k < num_selected; ++k) weights.push_back(0.1F + 0.3F * static_cast<float>(k));
    }
  }
  std::int64_t num_rows;
  std::int64_t selected;
  std::vector<float> x;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

std::vector<float> run(const Layer& layer, const Tokens& tokens, Precision precision, test::Kernels kernels,
                       int num_threads, bool with_shared = true, std::int64_t begin = 0,
                       std::int64_t end = -1, float limit = 10.0F, const ExpertHints& hints = {},
                       ExpertSums sums = ExpertSums::kFree) {
  if (end < 0) end = tokens.num_rows;
  const std::int64_t num_rows = end - begin, k = tokens.selected;
  const auto scratch_bytes =
      sums == ExpertSums::kStated ? stated_variant_scratch_bytes : experts_scratch_bytes;
  test::TestCpu cpu(num_threads, scratch_bytes(num_rows, k, kWidth, kInner, kNumExperts, num_threads),
                    kernels);
  std::vector<float> out(static_cast<std::size_t>(num_rows * kWidth), std::nanf(""));
  cpu.run<ops::Experts>({.x = {tokens.x.data() + begin * kWidth, {num_rows, kWidth}},
                         .ids = {tokens.ids.data() + begin * k, {num_rows, k}},
                         .weights = {tokens.weights.data() + begin * k, {num_rows, k}},
                         .routed = layer.routed(),
                         .shared = with_shared ? &layer.shared() : nullptr,
                         .swiglu_limit = limit,
                         .precision = precision,
                         .out = {out.data(), {num_rows, kWidth}},
                         .sums = sums,
                         .hints = hints});
  EXPECT_LE(cpu.scratch.peak_bytes(), cpu.scratch.size_bytes());
  return out;
}

TEST(Experts, AgreeWithPlainLoops) {
  struct Formats {
    WeightFormat routed, shared;
    int group = kActivationGroup;
  };
  const Formats all[] = {{WeightFormat::kFp4, WeightFormat::kFp8},
                         {WeightFormat::kNvfp4, WeightFormat::kFp8},
                         {WeightFormat::kFp8, WeightFormat::kFp8},
                         {WeightFormat::kBF16, WeightFormat::kBF16},
                         {WeightFormat::kFp4, WeightFormat::kFp8x32, kSmallActivationGroup},
                         {WeightFormat::kFp8x32, WeightFormat::kFp8x32, kSmallActivationGroup}};
  for (const auto& [routed, shared, group] : all) {
    const Layer layer(routed, shared, group);
    for (const std::int64_t num_rows : {1, 2, 9}) {
      for (const bool with_shared : {false, true}) {
        const Tokens tokens(num_rows, 3, 5);
        const auto got = run(layer, tokens, Precision::kExact, test::kBest, 2, with_shared);
        const auto want = run(layer, tokens, Precision::kExact, test::kReference, 1, with_shared);
        EXPECT_CLOSE(got, want, {.norm = 3e-6});
        // With rounding, sums that differ in the last float32 place may round to the next BF16 or e4m3 value,
        // and a flipped e4m3 input of w2 moves every output a little: a few units of 2^-9 in norm.
        const auto rounded = run(layer, tokens, Precision::kReleased, test::kBest, 2, with_shared);
        const auto rounded_want = run(layer, tokens, Precision::kReleased, test::kReference, 1, with_shared);
        EXPECT_CLOSE(rounded, rounded_want, {.norm = 4e-3});
      }
    }
  }
}

std::vector<float> run_stated(const Layer& layer, const Tokens& tokens, test::Kernels kernels,
                              int num_threads, bool with_shared) {
  return run(layer, tokens, Precision::kReleased, kernels, num_threads, with_shared, 0, -1, 10.0F, {},
             ExpertSums::kStated);
}

TEST(Experts, InAStatedOrderHaveTheSpecifiedBits) {
  for (const int group : {kActivationGroup, kSmallActivationGroup}) {
    const Layer layer(WeightFormat::kFp4, WeightFormat::kFp8, group);
    for (const std::int64_t num_rows : {1, 2, 9, 130}) {  // the last: several calls of stated_experts
      const Tokens tokens(num_rows, 4, 5);
      const auto want = run_stated(layer, tokens, test::kReference, 1, false);
      for (const int num_threads : {1, 3})
        EXPECT_SAME_BITS(run_stated(layer, tokens, test::kBest, num_threads, false), want);
    }
  }
}

// What a row of V4.1's experts is, step by step, with nothing of the code under test but BF16.

double power_of_two_above(double value) { return std::exp2(std::ceil(std::log2(value))); }

double e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code >= 0x80 ? -value : value;
}

double nearest_e4m3(double value) {
  const double bounded = std::clamp(value, -448.0, 448.0);
  const double step =
      std::abs(bounded) < 0x1p-6 ? 0x1p-9 : std::exp2(std::floor(std::log2(std::abs(bounded))) - 3);
  return std::nearbyint(bounded / step) * step;
}

using Doubles = std::vector<double>;

Doubles rounded_per_32(Doubles x) {
  for (std::size_t begin = 0; begin < x.size(); begin += 32) {
    double most = 1e-4;
    for (std::size_t i = begin; i < begin + 32; ++i) most = std::max(most, std::abs(x[i]));
    const double scale = power_of_two_above(most / 448);
    for (std::size_t i = begin; i < begin + 32; ++i) x[i] = nearest_e4m3(x[i] / scale) * scale;
  }
  return x;
}

Doubles decoded(const WeightMatrix& weight) {
  constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  Doubles values;
  for (std::int64_t n = 0; n < weight.rows; ++n) {
    for (std::int64_t k = 0; k < weight.cols; ++k) {
      const bool fp4 = weight.format == WeightFormat::kFp4;
      const auto byte = std::to_integer<std::uint8_t>(weight.data[(n * weight.cols + k) / (fp4 ? 2 : 1)]);
      const int nibble = byte >> (k % 2 * 4) & 15;
      const double value = fp4 ? (nibble >= 8 ? -1 : 1) * kE2m1[nibble % 8] : e4m3_value(byte);
      const std::int64_t scale = (fp4 ? n : n / 32) * (weight.cols / 32) + k / 32;
      values.push_back(std::ldexp(value, weight.group_scales[scale] - 127));
    }
  }
  return values;
}

double to_bf16(double value) { return static_cast<double>(round_bf16(static_cast<float>(value))); }

Doubles product_of(const WeightMatrix& weight, const Doubles& x) {
  const Doubles w = decoded(weight), rounded = rounded_per_32(x);
  Doubles y;
  for (std::size_t n = 0; n < static_cast<std::size_t>(weight.rows); ++n) {
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) sum += w[n * x.size() + k] * rounded[k];
    y.push_back(to_bf16(sum));
  }
  return y;
}

Doubles expert_of(const ExpertWeights& expert, const Doubles& x, double weight) {
  Doubles gate = product_of(expert.w1, x);
  const Doubles up = product_of(expert.w3, x);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = std::min(gate[i], 10.0), v = std::clamp(up[i], -10.0, 10.0);
    gate[i] = to_bf16(weight * (g / (1 + std::exp(-g)) * v));  // before it is rounded for w2
  }
  return product_of(expert.w2, gate);
}

TEST(Experts, OfV41FollowItsSteps) {
  Layer layer(WeightFormat::kFp4, WeightFormat::kFp8x32, kSmallActivationGroup);
  layer.spread_groups();
  Tokens tokens(3, 3, 12);
  // Groups of very different size beside each other, one of zeros, and one below the least scale, which
  // counts as much as the first and would be zeros with its scale.
  for (std::size_t i = 0; i < tokens.x.size(); ++i) {
    const float factors[] = {1.0F, 2.0F, 0.0F, 0x1p-18F};
    tokens.x[i] *= factors[i / 32 % 4];
    tokens.x[i] = round_bf16(tokens.x[i]);
  }
  std::vector<float> want;
  for (std::size_t row = 0; row < 3; ++row) {
    const Doubles x(tokens.x.begin() + static_cast<std::ptrdiff_t>(row) * kWidth,
                    tokens.x.begin() + static_cast<std::ptrdiff_t>(row + 1) * kWidth);
    Doubles sum = expert_of(layer.shared(), x, 1);
    for (std::size_t slot = 3 * row; slot < 3 * row + 3; ++slot) {
      const ExpertWeights& expert = layer.routed()[static_cast<std::size_t>(tokens.ids[slot])];
      const Doubles y = expert_of(expert, x, static_cast<double>(tokens.weights[slot]));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
    }
    for (const double value : sum) want.push_back(static_cast<float>(to_bf16(value)));
  }
  // A wrong group moves outputs by more than half their norm.
  for (const test::Kernels kernels : {test::kReference, test::kBest})
    EXPECT_CLOSE(run(layer, tokens, Precision::kReleased, kernels, 2), want, {.norm = 4e-3});
}

TEST(Experts, InAStatedOrderDifferByRounding) {
  const Layer layer(WeightFormat::kFp4, WeightFormat::kFp8);
  const Tokens tokens(9, 4, 5);
  for (const bool with_shared : {false, true}) {
    const auto free = run(layer, tokens, Precision::kReleased, test::kReference, 1, with_shared);
    const auto stated = run_stated(layer, tokens, test::kReference, 1, with_shared);
    // As in AgreeWithPlainLoops: sums that differ in the last place may round to the next value.
    EXPECT_CLOSE(stated, free, {.norm = 4e-3});
    EXPECT_CLOSE(run_stated(layer, tokens, test::kBest, 2, with_shared), stated, {.norm = 4e-3});
  }
}

TEST(Experts, InAStatedOrderOfPartsAreNotRounded) {
  const Layer layer(WeightFormat::kFp4, WeightFormat::kFp8);
  const Tokens tokens(3, 2, 5);
  std::vector<float> outputs[2];
  for (const test::Kernels kernels : {test::kReference, test::kBest}) {
    test::TestCpu cpu(2, stated_variant_scratch_bytes(3, 2, kWidth, kInner, kNumExperts, 2), kernels);
    auto& out = outputs[kernels == test::kBest ? 1 : 0];
    out.assign(3 * kWidth, std::nanf(""));
    cpu.run<ops::Experts>({.x = {tokens.x.data(), {3, kWidth}},
                           .ids = {tokens.ids.data(), {3, 2}},
                           .weights = {tokens.weights.data(), {3, 2}},
                           .routed = layer.routed(),
                           .swiglu_limit = 10.0F,
                           .out = {out.data(), {3, kWidth}},
                           .partial_sums = true,
                           .split = {.routed = true},
                           .sums = ExpertSums::kStated});
  }
  EXPECT_SAME_BITS(outputs[1], outputs[0]);
  EXPECT_NE(outputs[0], run_stated(layer, tokens, test::kReference, 1, false));
}

class ExpertGroups : public testing::TestWithParam<int> {
 protected:
  /// FP4 routed experts and an FP8 shared one, of the model whose groups these are.
  const Layer layer_{WeightFormat::kFp4,
                     GetParam() == kActivationGroup ? WeightFormat::kFp8 : WeightFormat::kFp8x32, GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Of, ExpertGroups, testing::Values(kActivationGroup, kSmallActivationGroup),
                         testing::PrintToStringParamName());

TEST_P(ExpertGroups, OnInt8AreNearAndDoNotDependOnCompany) {
  const Layer& layer = layer_;
  const Tokens tokens(40, 4, 8);
  const auto got = run(layer, tokens, Precision::kReleased, test::kInt8, 2);
  // Both round the inputs of both products, each by about 2%.
  EXPECT_CLOSE(got, run(layer, tokens, Precision::kReleased, test::kBest, 2), {.norm = 0.08});
  for (const std::int64_t chunk : {1, 3, 8}) {
    for (std::int64_t row = 0; row + chunk <= tokens.num_rows; row += chunk) {
      const auto part = run(layer, tokens, Precision::kReleased, test::kInt8, 1, true, row, row + chunk);
      ASSERT_SAME_BITS(part, std::span(got).subspan(static_cast<std::size_t>(row * kWidth), part.size()));
    }
  }
}

TEST(Experts, OnInt8RefusesWhatItDoesNotTake) {
  const auto variants = ops::Experts::cpu_variants();
  const auto int8 = std::ranges::find(variants, kInt8Variant, &CpuVariant<ops::Experts>::name);
  ASSERT_NE(int8, variants.end());
  const Layer fp4(WeightFormat::kFp4, WeightFormat::kFp8), fp8(WeightFormat::kFp8, WeightFormat::kFp8);
  EXPECT_EQ(int8->why_not({.routed = fp4.routed()}, {}), std::nullopt);
  EXPECT_NE(int8->why_not({.routed = fp8.routed()}, {}), std::nullopt);
  EXPECT_NE(int8->why_not({.routed = fp4.routed(), .precision = Precision::kExact}, {}), std::nullopt);
}

TEST_P(ExpertGroups, RowsDoNotDependOnCompanyOrThreads) {
  const Layer& layer = layer_;
  const Tokens tokens(150, 4, 8);  // more rows than one row block
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    const auto whole = run(layer, tokens, precision, test::kBest, 2);
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 8}, {8, 72}, {149, 150}}) {
      const auto part = run(layer, tokens, precision, test::kBest, 1, true, begin, end);
      EXPECT_SAME_BITS(part, std::span(whole).subspan(static_cast<std::size_t>(begin * kWidth), part.size()));
    }
  }
}

TEST(Experts, HintsChangeNoResult) {
  const Layer layer(WeightFormat::kFp4, WeightFormat::kFp8);
  const Tokens tokens(9, 3, 8), others(9, 2, 77);
  const ExpertHints wrong{.next = {.ids = {others.ids.data(), {9, 2}}},
                          .chosen_per_token = 5,
                          .expected = ExpertLoad{.assignments = 1, .distinct = 1, .tokens = 1000}};
  for (const test::Kernels kernels : {test::kReference, test::kBest}) {
    EXPECT_SAME_BITS(run(layer, tokens, Precision::kReleased, kernels, 2, true, 0, -1, 10.0F, wrong),
                     run(layer, tokens, Precision::kReleased, kernels, 2));
  }
}

TEST(Experts, AnIdOfMinusOneContributesNothing) {
  const Layer layer(WeightFormat::kFp4, WeightFormat::kFp8);
  for (const bool with_shared : {false, true}) {
    for (const test::Kernels kernels : {test::kReference, test::kBest}) {
      Tokens tokens(9, 3, 8), weightless = tokens;
      // One of three, all of a row, and a row that keeps only its last one.
      for (const std::size_t slot : {1, 6, 7, 8, 12, 13}) {
        tokens.ids[slot] = -1;
        weightless.weights[slot] = 0;
      }
      const auto got = run(layer, tokens, Precision::kReleased, kernels, 2, with_shared);
      EXPECT_CLOSE(got, run(layer, weightless, Precision::kReleased, kernels, 2, with_shared), {});
      if (with_shared) continue;
      for (std::int64_t i = 0; i < kWidth; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(2 * kWidth + i)], 0.0F);
    }
  }
}

TEST(Experts, ClampActsAndZeroLimitDoesNot) {
  const Layer layer(WeightFormat::kBF16, WeightFormat::kBF16);
  Tokens tokens(2, 2, 4);
  for (float& value : tokens.x) value *= 500.0F;
  const auto clamped = run(layer, tokens, Precision::kExact, test::kBest, 1, true, 0, -1, 10.0F);
  EXPECT_CLOSE(clamped, run(layer, tokens, Precision::kExact, test::kReference, 1, true, 0, -1, 10.0F),
               {.norm = 3e-6});
  const auto free = run(layer, tokens, Precision::kExact, test::kBest, 1, true, 0, -1, 0.0F);
  EXPECT_CLOSE(free, run(layer, tokens, Precision::kExact, test::kReference, 1, true, 0, -1, 0.0F),
               {.norm = 3e-6});
  EXPECT_NE(test::difference(free, clamped, {.norm = 0.1}), "");
}

TEST(Experts, NaNStaysInItsRow) {
  const Layer layer(WeightFormat::kFp4, WeightFormat::kFp8);
  Tokens tokens(3, 2, 6);
  tokens.x[kWidth + 3] = std::nanf("");
  const auto out = run(layer, tokens, Precision::kReleased, test::kBest, 2);
  for (std::int64_t i = 0; i < kWidth; ++i) {
    EXPECT_TRUE(std::isfinite(out[i]));
    EXPECT_TRUE(std::isnan(out[kWidth + i]));
    EXPECT_TRUE(std::isfinite(out[2 * kWidth + i]));
  }
}

}  // namespace
}  // namespace baleen
