#include "cuda/block_memory.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/cuda_error.h"
#include "cuda/shared_memory_limit.h"

namespace baleen {

std::int64_t most_shared_bytes(const char* name) {
  int gpu = 0, most = 0;
  check_cuda(cudaGetDevice(&gpu), name);
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), name);
  const std::int64_t limit = shared_memory_limit(gpu);
  return limit > 0 ? std::min<std::int64_t>(most, limit) : most;
}

}  // namespace baleen
