/// What a GPU can do at most, measured: the ceilings that operations are held against.
#pragma once

namespace baleen {

struct GpuLimits {
  double copy_bytes_per_second = 0;  ///< device to device, bytes read plus bytes written
  /// Dense products on the tensor cores, operands in shared memory, random data.
  double bf16_flops_per_second = 0;
  double fp8_flops_per_second = 0;  ///< 0 where there are no units for them
};

}  // namespace baleen
