// Every stream takes the embedding's term; rounded to BF16 but in `exact`.
#include "ops/mtp_combine/mtp_combine.h"

#include <gtest/gtest.h>

#include <vector>

#include "numeric/bf16.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

TEST(MtpCombine, AddsTheTermToEveryStream) {
  constexpr std::int64_t kRows = 3, kStreams = 4, kWidth = 130;
  auto embedded = test::random_values(kRows * kWidth, 1);
  const auto streams = test::random_values(kRows * kStreams * kWidth, 2);
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    ThreadPool pool(2);
    Arena scratch;
    CpuContext context{pool, scratch};
    auto out = streams;
    mtp_combine({.embedded = {embedded.data(), {kRows, kWidth}},
                 .precision = precision,
                 .streams = {out.data(), {kRows, kStreams, kWidth}}},
                context);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / (kStreams * kWidth);
      const float sum = embedded[row * kWidth + i % kWidth] + streams[i];
      ASSERT_EQ(out[i], precision == Precision::kExact ? sum : round_bf16(sum)) << i;
    }
  }
}

TEST(MtpCombine, NoRowsIsANoOp) {
  ThreadPool pool(1);
  Arena scratch;
  CpuContext context{pool, scratch};
  mtp_combine({.embedded = {nullptr, {0, 8}}, .streams = {nullptr, {0, 4, 8}}}, context);
}

}  // namespace
}  // namespace baleen
