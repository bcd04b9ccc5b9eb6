/// All kernels for sm80, as what drives its GPUs wants them.
#pragma once

#include "device/cuda/gpu_kernels.h"

namespace baleen::sm80 {

[[nodiscard]] GpuKernels kernels();

}  // namespace baleen::sm80
