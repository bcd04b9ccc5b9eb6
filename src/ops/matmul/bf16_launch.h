/// Launches of the kernels of BF16 products.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/cuda_error.h"
#include "ops/matmul/bf16_products.h"

namespace baleen {

constexpr int kSharedBytes = 227 << 10;  // of a block

struct Bf16Launch {
  void (*kernel)(Bf16Products);
  dim3 grid;
  int threads;
  int shared_bytes;
  int cluster_blocks = 1;
};

/// Lets the kernel start while its predecessor ends.
inline void launch_bf16(const Bf16Launch& launch, const Bf16Products& parameters, CudaContext& context) {
  check_cuda(
      cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes),
      "asking for shared memory");
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(launch.cluster_blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = launch.grid;
  config.blockDim = {static_cast<unsigned>(launch.threads), 1, 1};
  config.dynamicSmemBytes = static_cast<std::size_t>(launch.shared_bytes);
  config.stream = context.stream;
  config.attrs = attributes;
  config.numAttrs = launch.cluster_blocks > 1 ? 2 : 1;
  check_cuda(cudaLaunchKernelEx(&config, launch.kernel, parameters), "multiplying in BF16");
}

}  // namespace baleen
