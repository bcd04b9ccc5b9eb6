#include "benchmark/machine_report.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(MachineReport, PathsAreTakenOutOfSentences) {
  EXPECT_EQ(without_paths("a GPU is here, but /home/me/b/baleen_sm80.so, the kernels, is not there"),
            "a GPU is here, but baleen_sm80.so, the kernels, is not there");
  EXPECT_EQ(without_paths("\"/root/x y\": ~/.nv/ComputeCache (/tmp/a)"), "\"x y\": ComputeCache (a)");
  EXPECT_EQ(without_paths("4.2 GB/s; docker run --gpus all"), "4.2 GB/s; docker run --gpus all");
  EXPECT_EQ(without_paths(""), "");
  EXPECT_EQ(without_paths("/"), "");
}

}  // namespace
}  // namespace baleen
