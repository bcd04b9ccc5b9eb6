#include "cuda/kernel_launch.h"

#include <algorithm>
#include <set>

#include "cuda/shared_memory_limit.h"

namespace baleen {

void allow_most_shared_memory(const void* kernel, const char* name) {
  thread_local std::set<std::pair<int, const void*>> allowed;  // by GPU
  int gpu = 0;
  check_cuda(cudaGetDevice(&gpu), name);
  if (!allowed.emplace(gpu, kernel).second) return;
  int most = 0;
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), name);
  if (const std::int64_t limit = shared_memory_limit(gpu); limit > 0)
    most = static_cast<int>(std::min<std::int64_t>(most, limit));
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), name);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  most - static_cast<int>(attributes.sharedSizeBytes)),
             name);
}

}  // namespace baleen
