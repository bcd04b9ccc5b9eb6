// A decode step on a GPU: every kernel that may begin early finds that what it reads is there.
#include <gtest/gtest.h>

#include "device/cuda/cuda_device.h"
#include "device/device_choice.h"
#include "device/sm90/kernels.h"
#include "model/device_weights.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/reading_rank.h"

namespace baleen {
namespace {

TEST(CudaEarlyReads, AreAllowedInAReplayedDecodeStep) {
  BALEEN_NEEDS_GPU();
  const ModelConfig config = preset_config("tiny-flash");
  ThreadPool pool(2);
  const auto whole = made_up_weights(config, 7, pool, MadeUpBytes::kOfEachTensor);
  const DeviceTraits& traits = planned_gpu().architecture->traits;
  CudaDevice device(0, traits, sm90::kernels(),
                    {.scratch_bytes = test::reading_scratch(config, traits),
                     .max_rows = test::kMaxReadingRows,
                     .max_sequences = 8,
                     .max_pages = 4});
  const DeviceWeights weights(whole->tree(), device.memory());
  test::ReadingRank reading(config, weights.tree(), device, {}, Precision::kReleased);
  reading.capture(1);
  const LaunchOrder::Answers answers = device.launch_order().answers();
  EXPECT_GT(answers.asked, 0);
  EXPECT_EQ(answers.settled, answers.asked);
}

}  // namespace
}  // namespace baleen
