#include "cuda/kernel_launch.h"

#include <set>

#include "cuda/block_memory.h"

namespace baleen {

void allow_most_shared_memory(const void* kernel, const char* name) {
  thread_local std::set<std::pair<int, const void*>> allowed;  // by GPU
  int gpu = 0;
  check_cuda(cudaGetDevice(&gpu), name);
  if (!allowed.emplace(gpu, kernel).second) return;
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), name);
  check_cuda(cudaFuncSetAttribute(
                 kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                 static_cast<int>(most_shared_bytes(name)) - static_cast<int>(attributes.sharedSizeBytes)),
             name);
}

}  // namespace baleen
