#include "ops/mtp_combine/cuda/mtp_combine.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

TEST(MtpCombineOnGpu, AddsTheTermToEveryStream) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 8}, {1, 8}, {3, 136}, {65, 4096}}) {
    test::TestCuda cuda;
    const std::int64_t n = 4;
    std::vector<float> term = test::random_values(static_cast<std::size_t>(rows * width), 1);
    std::vector<float> streams = test::random_values(static_cast<std::size_t>(rows * n * width), 2);
    for (float& value : term) value = round_bf16(value);
    for (float& value : streams) value = round_bf16(value);
    Bf16Bits* device_streams = cuda.upload_bf16(streams);
    BALEEN_ARCH::mtp_combine({.embedded = View<const Bf16Bits, 2>(cuda.upload_bf16(term), {rows, width}),
                              .streams = View<Bf16Bits, 3>(device_streams, {rows, n, width})},
                             cuda.context());
    cuda.synchronise();
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / (n * width),
                 column = static_cast<std::int64_t>(i) % width;
      streams[i] = round_bf16(term[static_cast<std::size_t>(row * width + column)] + streams[i]);
    }
    EXPECT_SAME_BITS(cuda.download_bf16(device_streams, rows * n * width), streams);
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
