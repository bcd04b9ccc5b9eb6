/// Barriers of some of a block's warps.  (PTX: bar)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// `threads` of the block meet at barrier `id`, 1 to 15 (0 is that of __syncthreads).
__device__ inline void named_barrier_sync(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The same without waiting for the others.
__device__ inline void named_barrier_arrive(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace baleen::ptx
