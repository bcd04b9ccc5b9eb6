/// Programmatic dependent launch: a kernel starts while its predecessor still runs.  (PTX: griddepcontrol)
/// Before sm_90 there is none: kernels are launched in full order (`LaunchStream::starts_early`), and what is
/// here does nothing.
#pragma once

#include "cuda/next_kernel.h"

namespace baleen {

namespace ptx {

/// Before the first access to anything that an earlier kernel writes (or still reads, if it is written here);
/// what a launch may do before, `LaunchStream::is_settled` says. At once when the kernel was launched the
/// ordinary way. What kernels of the same chain write is never read with `__ldg` (ld.global.nc), which is for
/// memory that nothing writes while the kernel runs: it began before they ended.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The next kernel of the stream may begin, when every block has said so or ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ptx

/// Last parameter of a kernel that may start early: when it lets the next one begin. `launch_kernel` makes
/// it, and tells `LaunchOrder` the same. A kernel has no other way to let the next one begin, and is launched
/// in full order without it. Every grid waits for the kernel before it in some thread, or who waits for this
/// one alone would not know that one to be done.
template <NextKernel kNext>
class KernelOrder;

/// The next kernel may be launched at any time. What this one writes that one sees behind its own wait.
template <>
class KernelOrder<NextKernel::kAtOnce> {
 public:
  static constexpr NextKernel kNextKernel = NextKernel::kAtOnce;

  __host__ KernelOrder() {}
  __device__ void launch_next() const { ptx::launch_dependents(); }
};

/// The next kernel is launched when every block has waited, called `launch_next` or ended. What earlier
/// kernels have written that one may read at once, past the first-level cache.
template <>
class KernelOrder<NextKernel::kBehindWait> {
 public:
  static constexpr NextKernel kNextKernel = NextKernel::kBehindWait;

  /// What a thread has that has waited.
  class Waited {
   public:
    __device__ void launch_next() const { ptx::launch_dependents(); }

   private:
    friend class KernelOrder;
    __device__ Waited() {}
  };

  __host__ KernelOrder() {}
  __device__ Waited wait() const {
    ptx::wait_for_previous_kernel();
    return {};
  }
};

using NextAtOnce = KernelOrder<NextKernel::kAtOnce>;
using NextBehindWait = KernelOrder<NextKernel::kBehindWait>;

}  // namespace baleen
