/// The kernels of an architecture, for what drives its GPUs.
#pragma once

#include "cuda/cuda_context.h"
#include "cuda/gpu_limits.h"
#include "ops/operation/variant_table.h"

namespace baleen {

struct GpuKernels {
  /// Of all operations; ranks exchange messages through peer memory.
  VariantTable<CudaContext> (*variants)() = nullptr;
  /// The same by NCCL.
  VariantTable<CudaContext> (*variants_over_nccl)() = nullptr;
  /// Of the current GPU, which has so many multiprocessors.
  GpuLimits (*measure_limits)(CUstream_st* stream, int num_sms) = nullptr;
};

}  // namespace baleen
