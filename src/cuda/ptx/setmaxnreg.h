/// Registers moved between the warpgroups of a block.  (PTX: setmaxnreg)
#pragma once

namespace baleen::ptx {

/// For all warps of a warpgroup. The kernel has __launch_bounds__(threads, 1).
template <int kRegisters>
__device__ inline void registers_up_to() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void registers_down_to() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace baleen::ptx
