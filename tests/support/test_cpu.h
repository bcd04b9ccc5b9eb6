/// A thread pool, scratch memory and the context that names them, for one test.
#pragma once

#include "ops/operation/operation.h"

namespace baleen::test {

struct TestCpu {
  explicit TestCpu(int num_threads = 1, std::int64_t scratch_bytes = 0, Kernels kernels = Kernels::kBest)
      : pool(num_threads), scratch(scratch_bytes), context{pool, scratch, kernels} {}

  ThreadPool pool;
  Arena scratch;
  CpuContext context;
};

}  // namespace baleen::test
