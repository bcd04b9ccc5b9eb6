// The mean of streams: by hand, vectors against the reference to the bit, columns beside it, and the cost.
#include "ops/stream_mean/stream_mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(StreamMeanReference, IsRoundedOnceAndOnlyAfterTheSum) {
  // The first mean is three quarters of the way from one BF16 value to the next.
  const std::vector<float> streams{1.0F, 8.0F, 1.0F, 1.0F, 1.0F, 0.0F, 1.0F + 0x1.8p-6F, 3.0F};
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    std::vector<float> out(4, -1.0F);
    stream_mean_ref({.streams = {streams.data(), {1, 4, 2}},
                     .precision = precision,
                     .out = {out.data(), {1, 4}},
                     .first_column = 1});
    const float mean = precision == Precision::kExact ? 1.0F + 0x1.8p-8F : 1.0F + 0x1p-7F;
    EXPECT_SAME_BITS(out, (std::vector<float>{-1.0F, mean, 3.0F, -1.0F}));
  }
}

class StreamMean : public test::EveryTarget {};

TEST_P(StreamMean, EqualsTheReferenceToTheBitAndLeavesOtherColumns) {
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    for (const std::int64_t width : {1, 7, 64, 130, 4096}) {
      for (const std::int64_t num_streams : {1, 4}) {
        constexpr std::int64_t kRows = 5;
        const auto streams =
            test::random_values(static_cast<std::size_t>(kRows * num_streams * width), 1, 3.0F);
        const std::vector<float> before(static_cast<std::size_t>(kRows * (3 * width + 1)), 0.5F);
        std::vector<float> got = before, want = before;
        StreamMeanArgs args{.streams = {streams.data(), {kRows, num_streams, width}},
                            .precision = precision,
                            .out = {got.data(), {kRows, 3 * width}, {3 * width + 1, 1}},
                            .first_column = width};
        test::TestCpu(2).run<ops::StreamMean>(args);
        args.out = {want.data(), {kRows, 3 * width}, {3 * width + 1, 1}};
        stream_mean_ref(args);
        EXPECT_SAME_BITS(got, want) << precision_name(precision) << ", " << width << " wide";
        EXPECT_EQ(got.front(), 0.5F);
        EXPECT_EQ(got.back(), 0.5F);
      }
    }
  }
}

TEST_P(StreamMean, NoRowsIsANoOp) {
  test::TestCpu(1).run<ops::StreamMean>({.streams = {nullptr, {0, 4, 8}}, .out = {nullptr, {0, 24}}});
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, StreamMean, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

TEST(StreamMeanCost, ReadsTheStreamsAndWritesItsColumns) {
  constexpr std::int64_t kRows = 3, kWidth = 4096;
  const OpCost cost = stream_mean_cost({.streams = test::unread_bf16<3>({kRows, 4, kWidth}),
                                        .out = test::unread_bf16<2>({kRows, 3 * kWidth}),
                                        .first_column = kWidth});
  // Of a value three additions, a product, a rounding.
  EXPECT_EQ(cost.scalar_ops, 5 * kRows * kWidth);
  EXPECT_EQ(cost.matrix_flops(), 0);
  EXPECT_EQ(cost.total_bytes(), 10 * kRows * kWidth);
}

}  // namespace
}  // namespace baleen
