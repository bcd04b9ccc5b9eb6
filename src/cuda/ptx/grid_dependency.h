/// Programmatic dependent launch: a kernel starts while its predecessor still runs.  (PTX: griddepcontrol)
#pragma once

namespace baleen::ptx {

/// Before the first access to anything that an earlier kernel writes (or still reads, if it is written here).
/// At once when the kernel was launched the ordinary way. What kernels of the same chain write is never read
/// with `__ldg` (ld.global.nc), which is for memory that nothing writes while the kernel runs: it began
/// before they ended.
__device__ inline void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// The next kernel may be launched; what this one writes is seen by it only after its own wait. What earlier
/// kernels have written it may read at once, past the first-level cache, where all blocks of this one call
/// this behind their wait.
__device__ inline void launch_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace baleen::ptx
