/// Loads memory that a later instruction reads into L2; no thread waits for it.  (PTX: prefetch)
#pragma once

namespace baleen::ptx {

inline constexpr int kPrefetchBytes = 128;  ///< that one instruction of a thread asks for: a line of L2

/// The line that `address` lies in.
__device__ inline void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace baleen::ptx
