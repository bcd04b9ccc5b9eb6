#include "ops/stream_mean/cuda/stream_mean.h"

#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

TEST(StreamMeanOnGpu, EqualsTheReferenceToTheBitAndLeavesOtherColumns) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_streams : {1, 4}) {
    for (const auto& [rows, width] :
         {std::pair<std::int64_t, std::int64_t>{0, 8}, {1, 8}, {3, 136}, {65, 4096}, {5, 7168}}) {
      test::TestCuda cuda;
      std::vector<float> streams =
          test::random_values(static_cast<std::size_t>(rows * num_streams * width), 2, 3.0F);
      for (float& value : streams) value = round_bf16(value);
      std::vector<float> want(static_cast<std::size_t>(rows * 3 * width), 0.5F);
      Bf16Bits* const out = cuda.upload_bf16(want);
      for (const std::int64_t first_column : {width, 2 * width}) {
        BALEEN_ARCH::stream_mean(
            {.streams = View<const Bf16Bits, 3>(cuda.upload_bf16(streams), {rows, num_streams, width}),
             .out = View<Bf16Bits, 2>(out, {rows, 3 * width}),
             .first_column = first_column},
            cuda.context());
        stream_mean_ref({.streams = {streams.data(), {rows, num_streams, width}},
                         .out = {want.data(), {rows, 3 * width}},
                         .first_column = first_column});
        cuda.synchronise();
        EXPECT_SAME_BITS(cuda.download_bf16(out, rows * 3 * width), want)
            << num_streams << " streams, " << rows << " x " << width;
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
