/// Whether there is a GPU, for tests of kernels.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace baleen::test {

[[nodiscard]] inline bool have_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace baleen::test

/// First line of every test of kernels.
#define BALEEN_NEEDS_GPU() \
  if (!::baleen::test::have_gpu()) GTEST_SKIP() << "no GPU here"
