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

TEST(Linear, MixedFormatsOfOneInput) {
  const test::RandomWeight fp8(WeightFormat::kFp8, kOutputs, kInputs, 1);
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
               precision == Precision::kReleased ? ActivationRounding::kFp8 : ActivationRounding::kNone,
               precision != Precision::kExact, {want.data(), {kRows, kOutputs}});
    // A sum on the edge between two BF16 values may fall either way: one unit of 2^-8 on single elements.
    EXPECT_CLOSE(rounded, want, {.absolute = 1e-5, .relative = 0x1.1p-8});
    if (precision != Precision::kExact) {
      for (const float value : rounded) EXPECT_EQ(value, round_bf16(value));
    }
  }
}

TEST(Linear, OnInt8IsItsSpecification) {
  const test::RandomWeight fp8(WeightFormat::kFp8, kOutputs, kInputs, 1);
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
  matmul_ref(fp8.matrix(), {x.data(), {kRows, kInputs}}, ActivationRounding::kFp8, true,
             {released.data(), {kRows, kOutputs}});
  EXPECT_CLOSE(rounded, released, {.norm = 0.04});
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
