// Experts in a stated order of sums on the host's cores: every bit of the specification, on every instruction
// set, over widths, rows, threads, and codes of every value.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_experts.h"
#include "ops/experts/stated_sums.h"
#include "tests/support/every_target.h"

namespace baleen {
namespace {

/// How codes and scales are drawn.
enum class Bytes {
  /// Any byte. A NaN or infinity of w1 and w3 makes all outputs NaN, so their scales are of some binades, and
  /// NaN codes are in one row of x.
  kAll,
  kNumbers  ///< no NaN, scales of a few binades
};

struct Shape {
  std::int64_t width = 256, inner = 128;
  int group = kActivationGroup;  ///< inputs of activations that share a scale
};

/// FP4 weights of any alignment.
class Fp4 {
 public:
  Fp4(std::int64_t rows, std::int64_t cols, int group, Bytes scales, std::mt19937& random)
      : codes_(static_cast<std::size_t>(rows * cols / 2 + 1)),
        scales_(static_cast<std::size_t>(rows * cols / 32 + 1)) {
    for (std::uint8_t& code : codes_) code = static_cast<std::uint8_t>(random());
    for (std::uint8_t& scale : scales_)
      scale = static_cast<std::uint8_t>(scales == Bytes::kAll ? random() : 110 + random() % 16);
    matrix_ = {.format = WeightFormat::kFp4,
               .rows = rows,
               .cols = cols,
               .data = reinterpret_cast<const std::byte*>(codes_.data() + 1),
               .group_scales = scales_.data() + 1,
               .activation_group = group};
  }
  [[nodiscard]] const WeightMatrix& matrix() const { return matrix_; }
  [[nodiscard]] std::vector<std::uint8_t>& codes() { return codes_; }
  [[nodiscard]] std::vector<std::uint8_t>& scales() { return scales_; }

 private:
  std::vector<std::uint8_t> codes_, scales_;
  WeightMatrix matrix_;
};

struct Expert {
  Expert(Shape shape, Bytes bytes, std::mt19937& random)
      : w1(shape.inner, shape.width, shape.group, Bytes::kNumbers, random),
        w2(shape.width, shape.inner, shape.group, bytes, random),
        w3(shape.inner, shape.width, shape.group, Bytes::kNumbers, random),
        weights{w1.matrix(), w2.matrix(), w3.matrix()} {}
  Expert(const Expert&) = delete;
  Expert& operator=(const Expert&) = delete;

  Fp4 w1, w2, w3;
  ExpertWeights weights;
};

/// Rows of x, quantised.
struct Activations8 {
  Activations8(std::int64_t num_rows, const Shape& shape, Bytes bytes, std::mt19937& random)
      : stride((num_rows + 3) / 4 * 4),
        group(shape.group),
        codes(static_cast<std::size_t>(num_rows * shape.width)),
        scales(static_cast<std::size_t>(shape.width / shape.group * stride)) {
    const std::int64_t width = shape.width;
    for (std::uint8_t& code : codes) {
      do {
        code = static_cast<std::uint8_t>(random());
      } while (bytes == Bytes::kNumbers && (code & 0x7F) == 0x7F);
    }
    // Of all bytes, most rows keep numbers alone.
    for (std::int64_t row = 0; row < num_rows; ++row) {
      if (bytes != Bytes::kAll || row == 1) continue;
      for (std::int64_t i = width * row; i < width * (row + 1); ++i) {
        std::uint8_t& code = codes[static_cast<std::size_t>(i)];
        if ((code & 0x7F) == 0x7F) code ^= 1;
      }
    }
    // The rule makes powers of two, of which products are exact: others show whether they are rounded.
    for (float& scale : scales) {
      const float fraction = 0.001F * static_cast<float>(random() % 1000);
      scale = std::ldexp(1.0F + fraction, static_cast<int>(random() % 12) - 18);
    }
  }
  [[nodiscard]] Fp8Rows rows() { return {codes.data(), scales.data(), stride, group}; }

  std::int64_t stride;
  int group;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

/// What a call computes of experts with 1, 2, ... rows, of fewer rows of x: some have several experts.
struct Problem {
  Problem(Shape shape, const std::vector<std::int64_t>& rows_of_expert, Bytes bytes, unsigned seed)
      : random(seed), widths(shape), x(kRowsOfX, shape, bytes, random) {
    for (const std::int64_t num_rows : rows_of_expert) {
      experts.push_back(std::make_unique<Expert>(shape, bytes, random));
      counts.push_back(num_rows);
      std::vector<std::int32_t> index(static_cast<std::size_t>(num_rows));
      std::vector<float> weight(index.size());
      for (std::int32_t& row : index) row = static_cast<std::int32_t>(random() % kRowsOfX);
      for (float& value : weight) value = 0.1F + 0.001F * static_cast<float>(random() % 1000);
      row_index.push_back(std::move(index));
      weights.push_back(std::move(weight));
    }
  }

  [[nodiscard]] std::vector<Bf16Bits> run(int num_threads) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    std::vector<Bf16Bits> y(static_cast<std::size_t>(total * widths.width), 0x1234);
    const auto entries = entries_of(y);
    ThreadPool pool(num_threads);
    const std::int64_t bytes = stated_experts_scratch_bytes(static_cast<std::int64_t>(experts.size()), total,
                                                            widths.width, widths.inner);
    Arena scratch(bytes);
    for (int repetition = 0; repetition < 2; ++repetition) {
      stated_experts(entries, kLimit, pool, scratch);
      EXPECT_EQ(scratch.mark(), 0);
      EXPECT_LE(scratch.peak_bytes(), bytes);
    }
    return y;
  }

  [[nodiscard]] std::vector<Bf16Bits> specified() {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    std::vector<Bf16Bits> y(static_cast<std::size_t>(total * widths.width), 0x4321);
    for (const StatedExpertRows& entry : entries_of(y)) stated_expert_ref(entry, kLimit);
    return y;
  }

  static constexpr std::int64_t kRowsOfX = 6;
  static constexpr float kLimit = 10.0F;
  std::mt19937 random;
  Shape widths;
  Activations8 x;
  std::vector<std::unique_ptr<Expert>> experts;
  std::vector<std::int64_t> counts;
  std::vector<std::vector<std::int32_t>> row_index;
  std::vector<std::vector<float>> weights;

 private:
  [[nodiscard]] std::vector<StatedExpertRows> entries_of(std::vector<Bf16Bits>& y) {
    std::vector<StatedExpertRows> entries;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      entries.push_back({.expert = &experts[i]->weights,
                         .x = x.rows(),
                         .row_index = row_index[i].data(),
                         .weights = weights[i].data(),
                         .num_rows = counts[i],
                         .y = y.data() + first * widths.width});
      first += counts[i];
    }
    return entries;
  }
};

bool is_nan(Bf16Bits bits) { return (bits & 0x7FFF) > 0x7F80; }

/// NaN is equal to NaN.
void expect_same(const std::vector<Bf16Bits>& got, const std::vector<Bf16Bits>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (is_nan(got[i]) && is_nan(want[i])) continue;
    ASSERT_EQ(got[i], want[i]) << "output " << i << ": " << bf16_to_float(got[i]) << " and "
                               << bf16_to_float(want[i]);
  }
}

std::size_t num_numbers(const std::vector<Bf16Bits>& values) {
  std::size_t count = 0;
  for (const Bf16Bits value : values) count += is_nan(value) ? 0 : 1;
  return count;
}

class StatedExperts : public test::EveryTarget {
 protected:
  void TearDown() override {
    allow_byte_dots(true);
    test::EveryTarget::TearDown();
  }
};

TEST_P(StatedExperts, HaveTheSpecifiedBits) {
  unsigned seed = 1;
  for (const Shape shape :
       {Shape{128, 128}, Shape{256, 384}, Shape{640, 128}, Shape{4096, 256}, Shape{128, 128, 32},
        Shape{256, 384, 32}, Shape{640, 128, 32}, Shape{5120, 128, 32}}) {
    for (const Bytes bytes : {Bytes::kNumbers, Bytes::kAll}) {
      Problem problem(shape, {1, 2, 0, 5, 3}, bytes, ++seed);
      const auto want = problem.specified();
      if (bytes == Bytes::kNumbers) {
        EXPECT_EQ(num_numbers(want), want.size());
      } else {
        EXPECT_GT(num_numbers(want), want.size() / 10);
        EXPECT_LT(num_numbers(want), want.size());
      }
      expect_same(problem.run(2), want);
    }
  }
}

TEST_P(StatedExperts, WithoutByteDotsHaveThem) {
  allow_byte_dots(false);
  for (const Bytes bytes : {Bytes::kNumbers, Bytes::kAll}) {
    for (const int group : {128, 32}) {
      Problem problem({1024, 384, group}, {1, 2, 5}, bytes, 11);
      expect_same(problem.run(2), problem.specified());
    }
  }
}

TEST_P(StatedExperts, OfTheReleasedWidthsHaveThem) {
  Problem flash({4096, 2048}, {2}, Bytes::kNumbers, 3), pro({7168, 128}, {1}, Bytes::kNumbers, 4);
  expect_same(flash.run(2), flash.specified());
  expect_same(pro.run(2), pro.specified());
  Problem v41({5120, 2304, 32}, {2}, Bytes::kNumbers, 5);
  expect_same(v41.run(2), v41.specified());
}

/// Groups that share a scale have the bits of the slice that they make.
TEST_P(StatedExperts, OfGroupsWithOneScaleHaveTheBitsOfTheirSlice) {
  std::mt19937 random(14);
  constexpr std::int64_t kRows = 40, kWidth = 640;
  const Fp4 fp4(kRows, kWidth, kActivationGroup, Bytes::kNumbers, random);
  WeightMatrix of_slices = fp4.matrix(), of_groups = of_slices;
  of_groups.activation_group = kSmallActivationGroup;
  std::vector<std::uint8_t> codes(kWidth);
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() % 127 + random() % 2 * 128);
  std::vector<float> slices, groups, want(kRows), got(kRows);
  for (std::int64_t slice = 0; slice < kWidth / kActivationGroup; ++slice) {
    slices.push_back(std::ldexp(1.0F, static_cast<int>(random() % 12) - 18));
    groups.insert(groups.end(), 4, slices.back());
  }
  stated_product_ref(of_slices, codes, slices, false, want);
  stated_product_ref(of_groups, codes, groups, false, got);
  EXPECT_EQ(got, want);
  groups[6] *= 2;
  stated_product_ref(of_groups, codes, groups, false, got);
  EXPECT_NE(got, want);
}

TEST_P(StatedExperts, DependOnNeitherRowsNorThreads) {
  for (std::int64_t num_rows = 1; num_rows <= 9; ++num_rows) {
    Problem problem({384, 256, num_rows % 2 == 0 ? 128 : 32}, {num_rows}, Bytes::kNumbers, 7);
    const auto want = problem.specified();
    for (const int num_threads : {1, 2, 3, 8}) expect_same(problem.run(num_threads), want);
  }
  Problem many({128, 128}, {64, 1}, Bytes::kNumbers, 8);
  expect_same(many.run(3), many.specified());
}

/// One output of numbers, with scales at the ends of their range: subnormal and infinite products are kept.
TEST_P(StatedExperts, KeepSubnormalAndInfiniteSums) {
  for (const int scale : {0, 1, 2, 3, 120, 253, 254, 255}) {
    for (const float s : {0x1p-149F, 0x1p-130F, 0x1p-120F, 1.0F, 0x1p+100F}) {
      Problem problem({256, 128, scale % 2 == 0 ? 128 : 32}, {1}, Bytes::kNumbers,
                      static_cast<unsigned>(scale) + 10);
      for (std::uint8_t& code : problem.experts[0]->w1.scales()) code = static_cast<std::uint8_t>(scale);
      for (float& value : problem.x.scales) value = s;
      expect_same(problem.run(1), problem.specified());
    }
  }
}

TEST_P(StatedExperts, OfSaturatedAndZeroCodesHaveThem) {
  for (const int weight_code : {0x00, 0x77, 0xFF, 0x88, 0x7F}) {
    for (const int code : {0x00, 0x80, 0x7E, 0xFE, 0x7F, 0x01}) {
      Problem problem({256, 128, weight_code == 0x77 ? 32 : 128}, {2}, Bytes::kNumbers,
                      static_cast<unsigned>(code + weight_code + 1));
      for (Fp4* matrix : {&problem.experts[0]->w1, &problem.experts[0]->w3})
        for (std::uint8_t& byte : matrix->codes()) byte = static_cast<std::uint8_t>(weight_code);
      for (std::uint8_t& byte : problem.x.codes) byte = static_cast<std::uint8_t>(code);
      expect_same(problem.run(1), problem.specified());
    }
  }
}

TEST_P(StatedExperts, WithoutRowsDoNothing) {
  ThreadPool pool(2);
  Arena scratch(0);
  stated_experts(std::span<const StatedExpertRows>(), 0.0F, pool, scratch);
  const StatedExpertRows nothing;
  stated_experts({&nothing, 1}, 0.0F, pool, scratch);
}

void expect_values_rounded_per(int group) {
  constexpr std::int64_t kRows = 3, kWidth = 256, kInner = 128;
  const auto size = static_cast<std::size_t>(group);
  std::mt19937 random(5);
  const Expert expert({kWidth, kInner, group}, Bytes::kNumbers, random);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> x(kRows * kWidth), scales(kWidth / size * 4);
  for (float& value : x) value = round_bf16(normal(random));
  x[5] = 0x1p-130F;
  x[kWidth + 7] = std::numeric_limits<float>::infinity();
  x[2 * kWidth + 9] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::uint8_t> codes(x.size());
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t place = 0; place < kWidth / size; ++place) {
      const std::size_t at = row * kWidth + size * place;
      scales[place * 4 + row] = e8m0_to_float(
          quantise_fp8_block(std::span(x).subspan(at, size), std::span(codes).subspan(at, size)));
    }
  }
  const std::int32_t index[] = {2, 0, 1};
  const float weights[] = {0.5F, 1.0F, 0.25F};
  std::vector<Bf16Bits> want(x.size());
  stated_expert_ref({.expert = &expert.weights,
                     .x = {codes.data(), scales.data(), 4, group},
                     .row_index = index,
                     .weights = weights,
                     .num_rows = kRows,
                     .y = want.data()},
                    10.0F);
  ThreadPool pool(2);
  Arena scratch(stated_experts_scratch_bytes(1, kRows, kWidth, kInner));
  std::vector<float> y(x.size());
  const StatedExpertValues entry{&expert.weights, index, weights, kRows, y.data()};
  stated_experts({&entry, 1}, {x.data(), {kRows, kWidth}}, 10.0F, true, pool, scratch);
  std::vector<Bf16Bits> got(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) got[i] = float_to_bf16(y[i]);
  expect_same(got, want);
}

TEST_P(StatedExperts, OfValuesRoundThemByTheRule) {
  for (const int group : {kActivationGroup, kSmallActivationGroup}) expect_values_rounded_per(group);
}

/// Sums so small that a product which is rounded before it is added shows.
TEST_P(StatedExperts, MultiplyAndAddWithOneRounding) {
  constexpr std::int64_t kWidth = 4096, kInner = 512;
  constexpr float kLimit = 10.0F, kWeight = 1e-6F;
  std::mt19937 random(6);
  Expert expert({kWidth, kInner}, Bytes::kNumbers, random);
  for (std::uint8_t& scale : expert.w2.scales()) scale = 0;
  std::vector<std::uint8_t> codes(kWidth);
  std::vector<float> x(kWidth), scales(kWidth / 128);
  for (float& value : x) value = 0.01F * static_cast<float>(random() % 100);
  const auto quantise = [](std::span<const float> values, std::vector<std::uint8_t>& to,
                           std::vector<float>& to_scales) {
    for (std::size_t slice = 0; slice < to_scales.size(); ++slice) {
      to_scales[slice] = e8m0_to_float(
          quantise_fp8_block(values.subspan(128 * slice, 128), std::span(to).subspan(128 * slice, 128)));
    }
  };
  quantise(x, codes, scales);
  std::vector<float> gate(kInner), up(kInner), want(kWidth), inner_scales(kInner / 128);
  stated_product_ref(expert.weights.w1, codes, scales, true, gate);
  stated_product_ref(expert.weights.w3, codes, scales, true, up);
  for (std::size_t i = 0; i < gate.size(); ++i)
    gate[i] = round_bf16(stated_swiglu_ref(gate[i], up[i], kLimit, kWeight));
  std::vector<std::uint8_t> inner_codes(kInner);
  quantise(gate, inner_codes, inner_scales);
  stated_product_ref(expert.weights.w2, inner_codes, inner_scales, false, want);

  ThreadPool pool(1);
  Arena scratch(stated_experts_scratch_bytes(1, 1, kWidth, kInner));
  std::vector<float> got(kWidth);
  const std::int32_t row = 0;
  const StatedExpertValues entry{&expert.weights, &row, &kWeight, 1, got.data()};
  stated_experts({&entry, 1}, {x.data(), {1, kWidth}}, kLimit, false, pool, scratch);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << i;
}

TEST_P(StatedExperts, ActivationHasTheSpecifiedBits) {
  std::vector<float> gate(1 << 16), up(gate.size()), got(gate.size());
  std::mt19937 random(9);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    gate[i] = bf16_to_float(static_cast<Bf16Bits>(i));
    up[i] = bf16_to_float(static_cast<Bf16Bits>(i % 3 == 0 ? random() : random() % 0x200 + 0x3F00));
  }
  for (const float limit : {0.0F, 10.0F}) {
    stated_swiglu_row(gate.data(), up.data(), static_cast<std::int64_t>(gate.size()), limit, 0.7F,
                      got.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const float want = stated_swiglu_ref(gate[i], up[i], limit, 0.7F);
      if (std::isnan(want) && std::isnan(got[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want))
          << gate[i] << ", " << up[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, StatedExperts, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
