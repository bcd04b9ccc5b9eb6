/// All kernels for sm90, as what drives its GPUs wants them.
#pragma once

#include "device/cuda/gpu_kernels.h"

namespace baleen::sm90 {

[[nodiscard]] GpuKernels kernels();

}  // namespace baleen::sm90
