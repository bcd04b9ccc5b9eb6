// Which outputs are rounded and which activations are quantised, by weight format and precision.
#include <gtest/gtest.h>

#include <algorithm>

#include "numeric/bf16.h"
#include "ops/linear/linear.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 4, kInputs = 256, kOutputs = 130;

/// FP8 of either block, with activations as its model rounds them.
class LinearFp8 : public testing::TestWithParam<WeightFormat> {
 protected:
  const test::RandomWeight fp8_{GetParam(), kOutputs, kInputs, 1};
  const ActivationRounding rounding_ =
      GetParam() == WeightFormat::kFp8 ? ActivationRounding::kFp8 : ActivationRounding::kFp8x32;
};
INSTANTIATE_TEST_SUITE_P(Of, LinearFp8, testing::Values(WeightFormat::kFp8, WeightFormat::kFp8x32),
                         [](const auto& tested) {
                           return tested.param == WeightFormat::kFp8 ? "Blocks128" : "Blocks32";
                         });

TEST_P(LinearFp8, MixedFormatsOfOneInput) {
  const test::RandomWeight& fp8 = fp8_;
  const test::RandomWeight bf16(WeightFormat::kBF16, kOutputs, kInputs, 2);
  auto x = test::random_values(kRows * kInputs, 3);
  for (float& value : x) value = round_bf16(value);
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    test::TestCpu cpu(2, linear_scratch_bytes(kRows, kInputs));
    std::vector<float> rounded(kRows * kOutputs), kept(kRows * kOutputs);
    const LinearOutput outputs[] = {{&fp8.matrix(), {rounded.data(), {kRows, kOutputs}}, false},
                                    {&bf16.matrix(), {kept.data(), {kRows, kOutputs}}, true}};
    cpu.run<ops::Linear>({.x = {x.data(), {kRows, kInputs}}, .outputs = outputs, .precision = precision});

    std::vector<float> want(kRows * kOutputs);
    matmul_ref(bf16.matrix(), {x.data(), {kRows, kInputs}}, ActivationRounding::kNone, false,
               {want.data(), {kRows, kOutputs}});
    EXPECT_CLOSE(kept, want, {.norm = 1e-6});
    matmul_ref(fp8.matrix(), {x.data(), {kRows, kInputs}},
               precision == Precision::kReleased ? rounding_ : ActivationRounding::kNone,
               precision != Precision::kExact, {want.data(), {kRows, kOutputs}});
    // A sum on the edge between two BF16 values may fall either way: one unit of 2^-8 on single elements.
    EXPECT_CLOSE(rounded, want, {.absolute = 1e-5, .relative = 0x1.1p-8});
    if (precision != Precision::kExact) {
      for (const float value : rounded) EXPECT_EQ(value, round_bf16(value));
    }
  }
}

TEST_P(LinearFp8, OnInt8IsItsSpecification) {
  const test::RandomWeight& fp8 = fp8_;
  const test::RandomWeight bf16(WeightFormat::kBF16, kOutputs, kInputs, 2);
  auto x = test::random_values(kRows * kInputs, 3);
  test::TestCpu cpu(2, linear_scratch_bytes(kRows, kInputs), test::kInt8);
  std::vector<float> rounded(kRows * kOutputs), kept(kRows * kOutputs);
  const LinearOutput outputs[] = {{&fp8.matrix(), {rounded.data(), {kRows, kOutputs}}, false},
                                  {&bf16.matrix(), {kept.data(), {kRows, kOutputs}}, true}};
  cpu.run<ops::Linear>({.x = {x.data(), {kRows, kInputs}}, .outputs = outputs});

  std::vector<float> want(kRows * kOutputs), released(kRows * kOutputs);
  matmul_ref(bf16.matrix(), {x.data(), {kRows, kInputs}}, ActivationRounding::kNone, false,
             {want.data(), {kRows, kOutputs}});
  EXPECT_CLOSE(kept, want, {.norm = 1e-6});
  matmul_ref(cpu.int8_copies.of(fp8.matrix(), cpu.pool), {x.data(), {kRows, kInputs}},
             ActivationRounding::kInt8, true, {want.data(), {kRows, kOutputs}});
  EXPECT_CLOSE(rounded, want, {.absolute = 1e-5, .relative = 0x1.1p-8});
  // e4m3 and 8 bits are both about 2% away from x where values are normally distributed.
  matmul_ref(fp8.matrix(), {x.data(), {kRows, kInputs}}, rounding_, true,
             {released.data(), {kRows, kOutputs}});
  EXPECT_CLOSE(rounded, released, {.norm = 0.04});
}

TEST(Linear, AsTrainingComputesItIsItsSpecification) {
  const test::RandomWeight weight(WeightFormat::kF32, kOutputs, kInputs, 1);
  auto x = test::random_values(kRows * kInputs, 3);
  std::vector<float> y(kRows * kOutputs), want(kRows * kOutputs);
  for (const bool keep_f32 : {true, false}) {
    const LinearOutput output{&weight.matrix(), {y.data(), {kRows, kOutputs}}, keep_f32};
    const LinearOutput wanted{&weight.matrix(), {want.data(), {kRows, kOutputs}}, keep_f32};
    const LinearArgs args{.x = {x.data(), {kRows, kInputs}}, .outputs = {&output, 1}};
    linear_ref({.x = args.x, .outputs = {&wanted, 1}});
    test::TestCpu(2, 0, kTrainingVariant).run<ops::Linear>(args);
    EXPECT_CLOSE(y, want, {.absolute = 1e-4, .relative = keep_f32 ? 0 : 0x1.1p-8});
    test::TestCpu(2, 0, kTrainingBf16Variant).run<ops::Linear>(args);
    EXPECT_CLOSE(y, want, {.norm = 0.01});  // operands are 2^-9 away at most
    if (keep_f32) {
      EXPECT_FALSE(std::ranges::equal(y, want));
    }
  }
}

TEST(Linear, TrainingRefusesPackedWeights) {
  const test::RandomWeight fp8(WeightFormat::kFp8, kOutputs, kInputs, 1);
  const LinearOutput output{&fp8.matrix(), {nullptr, {kRows, kOutputs}}};
  for (const CpuVariant<ops::Linear>& variant : ops::Linear::cpu_variants()) {
    if (variant.name != kTrainingVariant && variant.name != kTrainingBf16Variant) continue;
    const auto why = variant.why_not({.outputs = {&output, 1}}, {});
    ASSERT_TRUE(why) << variant.name;
    EXPECT_EQ(*why, kTrainsFloat32);
  }
}

TEST(Linear, OnInt8RefusesWhatRoundsLess) {
  const auto variants = ops::Linear::cpu_variants();
  const auto int8 = std::ranges::find(variants, kInt8Variant, &CpuVariant<ops::Linear>::name);
  ASSERT_NE(int8, variants.end());
  EXPECT_EQ(int8->why_not({.precision = Precision::kReleased}, {}), std::nullopt);
  for (const Precision precision : {Precision::kBf16, Precision::kExact})
    EXPECT_EQ(int8->why_not({.precision = precision}, {}), kInt8RoundsActivations);
}

}  // namespace
}  // namespace baleen
