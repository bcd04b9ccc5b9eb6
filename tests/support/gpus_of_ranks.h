/// The GPUs of this machine, shared out to ranks of a test.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "comm/shared_gpus.h"

namespace baleen::test {

[[nodiscard]] inline int num_gpus() {
  static const bool kPrepared = (prepare_shared_gpus(), true);
  static_cast<void>(kPrepared);
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// Of `count` ranks: all GPUs in turn, so that ranks share them where there are fewer.
[[nodiscard]] inline std::vector<int> gpus_of_ranks(std::int64_t count) {
  std::vector<int> gpus;
  for (std::int64_t rank = 0; rank < count; ++rank) gpus.push_back(static_cast<int>(rank % num_gpus()));
  return gpus;
}

}  // namespace baleen::test

/// First line of every test that needs `count` GPUs.
#define BALEEN_NEEDS_GPUS(count) \
  if (::baleen::test::num_gpus() < (count)) GTEST_SKIP() << "needs " << (count) << " GPUs"
