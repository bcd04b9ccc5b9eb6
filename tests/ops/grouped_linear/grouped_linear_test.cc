// Every group multiplies with its own rows, and activations are not quantised.
#include <gtest/gtest.h>

#include <utility>

#include "ops/grouped_linear/grouped_linear.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

TEST(GroupedLinear, EachGroupIsItsOwnProduct) {
  constexpr std::int64_t kRows = 5, kGroups = 3, kInputs = 256, kOutputs = 128;
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp8x32, WeightFormat::kBF16}) {
    const test::RandomWeight weight(format, kGroups * kOutputs, kInputs, 1);
    auto x = test::random_values(kRows * kGroups * kInputs, 2);
    for (const auto& [kernels, precision] :
         {std::pair{test::kBest, Precision::kExact}, std::pair{test::kBest, Precision::kReleased},
          std::pair{test::kReference, Precision::kExact},
          std::pair{test::kReference, Precision::kReleased}}) {
      const bool rounds = precision != Precision::kExact;
      test::TestCpu cpu(2, grouped_linear_scratch_bytes(kRows, kGroups, kInputs), kernels);
      std::vector<float> y(kRows * kGroups * kOutputs);
      cpu.run<ops::GroupedLinear>({.x = {x.data(), {kRows, kGroups, kInputs}},
                                   .weight = &weight.matrix(),
                                   .y = {y.data(), {kRows, kGroups * kOutputs}},
                                   .precision = precision});
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t group = 0; group < kGroups; ++group) {
          std::vector<float> want(kOutputs);
          matmul_ref(weight.matrix().slice_rows(group * kOutputs, (group + 1) * kOutputs),
                     {x.data() + (row * kGroups + group) * kInputs, {1, kInputs}},
                     rounds ? ActivationRounding::kBf16 : ActivationRounding::kNone, rounds,
                     {want.data(), {1, kOutputs}});
          EXPECT_CLOSE(
              std::span(y).subspan(static_cast<std::size_t>((row * kGroups + group) * kOutputs), kOutputs),
              want, {.norm = rounds ? 1e-3 : 1e-6});  // a sum's last bits may turn a rounding to BF16
        }
      }
    }
  }
}

}  // namespace
}  // namespace baleen
