#include "device/sm80/kernels.h"

#include "cuda/sm80/gpu_limits.h"
#include "ops/sm80/variants.h"

namespace baleen::sm80 {

GpuKernels kernels() {
  return {
      .variants = variants, .variants_over_nccl = variants_over_nccl, .measure_limits = measure_gpu_limits};
}

}  // namespace baleen::sm80
