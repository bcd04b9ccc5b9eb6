#include "cuda/kernel_launch.h"
#include "ops/rms_norm/cuda/rms_norm.h"
#include "ops/rms_norm/cuda/rms_norm_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace rms_norm_rows;

__global__ void __launch_bounds__(kMaxWarps* kWarpLanes)
    rms_norm_kernel(const __grid_constant__ Rows rows, NextAtOnce order) {
  order.launch_next();
  norm_rows(rows, blockIdx.x);
}

}  // namespace

void rms_norm(const RmsNormArgs& args, CudaContext& context) {
  const Rows rows = rows_of(args);
  if (rows.num_rows == 0) return;
  launch_kernel("rms_norm", rms_norm_kernel,
                {.grid = dim3(static_cast<unsigned>(rows.blocks())), .threads = rows.block_threads()},
                context.stream, rows);
}

}  // namespace baleen::BALEEN_ARCH
