#include "late_copy.h"

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/system_memory.h"

namespace baleen::test {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    late_copy_kernel(const std::uint32_t* from, std::int64_t count, std::uint32_t* to, std::uint64_t delay_ns,
                     NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::uint64_t begin = ptx::global_time();
  while (ptx::global_time() - begin < delay_ns) {
  }
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) to[i] = __ldcg(from + i);
}

}  // namespace

void copy_late(std::span<const std::uint32_t> from, std::uint32_t* to, std::int64_t delay_us,
               const LaunchStream& stream) {
  // One block: the kernels behind find multiprocessors.
  launch_kernel("copying late", late_copy_kernel, {.grid = dim3(1), .threads = kThreads}, stream, from.data(),
                static_cast<std::int64_t>(from.size()), to, static_cast<std::uint64_t>(1000 * delay_us));
}

}  // namespace baleen::test
