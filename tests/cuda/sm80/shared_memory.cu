#include "cuda/kernel_launch.h"
#include "shared_memory.h"

namespace baleen::test {
namespace {

constexpr int kStaticInts = 1024;

__global__ void touch_shared_memory(int num_ints) {
  extern __shared__ int dynamic[];
  __shared__ int fixed[kStaticInts];
  fixed[threadIdx.x] = num_ints;
  __syncthreads();
  dynamic[fixed[0] - 1] = static_cast<int>(threadIdx.x);
}

}  // namespace

void launch_with_shared_memory(std::int64_t bytes, const LaunchStream& stream) {
  const std::int64_t dynamic = bytes - kStaticInts * std::int64_t{sizeof(int)};
  launch_kernel("touch_shared_memory", touch_shared_memory,
                {.grid = dim3(1), .threads = 32, .shared_bytes = dynamic}, stream,
                static_cast<int>(dynamic / std::int64_t{sizeof(int)}));
}

}  // namespace baleen::test
