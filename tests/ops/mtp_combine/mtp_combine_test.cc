// Every stream takes the embedding's term; rounded to BF16 but in `exact`.
#include "ops/mtp_combine/mtp_combine.h"

#include <gtest/gtest.h>

#include <vector>

#include "numeric/bf16.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

TEST(MtpCombine, AddsTheTermToEveryStream) {
  constexpr std::int64_t kRows = 3, kStreams = 4, kWidth = 130;
  auto embedded = test::random_values(kRows * kWidth, 1);
  const auto streams = test::random_values(kRows * kStreams * kWidth, 2);
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    test::TestCpu cpu(2);
    auto out = streams;
    cpu.run<ops::MtpCombine>({.embedded = {embedded.data(), {kRows, kWidth}},
                              .precision = precision,
                              .streams = {out.data(), {kRows, kStreams, kWidth}}});
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / (kStreams * kWidth);
      const float sum = embedded[row * kWidth + i % kWidth] + streams[i];
      ASSERT_EQ(out[i], precision == Precision::kExact ? sum : round_bf16(sum)) << i;
    }
  }
}

TEST(MtpCombine, NoRowsIsANoOp) {
  test::TestCpu cpu(1);
  cpu.run<ops::MtpCombine>({.embedded = {nullptr, {0, 8}}, .streams = {nullptr, {0, 4, 8}}});
}

}  // namespace
}  // namespace baleen
