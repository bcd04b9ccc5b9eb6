/// What the current GPU can do at most, measured: the ceilings that operations are held against.
#pragma once

#include <cuda_runtime_api.h>

namespace baleen {

struct GpuLimits {
  double copy_bytes_per_second = 0;  ///< device to device, bytes read plus bytes written
  double bf16_flops_per_second =
      0;  ///< dense products on the tensor cores, operands in shared memory, random data
  double fp8_flops_per_second = 0;
};

/// Takes some 50 ms and 2 GB of device memory for as long (less where less is free). Medians. Throws `Error`.
[[nodiscard]] GpuLimits measure_gpu_limits(cudaStream_t stream, int num_sms);

}  // namespace baleen
