#include "cuda/gpu_identity.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>

#include "cuda/cuda_error.h"

namespace baleen {

GpuIdentity gpu_identity(int gpu) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, gpu), "reading the device");
  GpuIdentity identity;
  static_assert(sizeof(properties.uuid.bytes) == sizeof(identity.bytes));
  std::ranges::copy(properties.uuid.bytes, identity.bytes.begin());
  return identity;
}

}  // namespace baleen
