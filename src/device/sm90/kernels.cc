#include "device/sm90/kernels.h"

#include "cuda/sm90/gpu_limits.h"
#include "ops/sm90/variants.h"

namespace baleen::sm90 {

GpuKernels kernels() {
  return {
      .variants = variants, .variants_over_nccl = variants_over_nccl, .measure_limits = measure_gpu_limits};
}

}  // namespace baleen::sm90
