#include "cuda/full_order.h"
#include "cuda/kernel_launch.h"

namespace baleen {
namespace {

__global__ void nothing() {}

}  // namespace

void keep_full_order(const LaunchStream& stream) {
  launch_kernel("ordering kernels", nothing, {.grid = dim3(1), .threads = 1}, stream);
}

}  // namespace baleen
