/// Copies of 16 or 4 bytes a thread from device to shared memory.  (PTX: cp.async)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// 16 bytes, past L1. `valid` false: zeros are written and `from` is not read.
__device__ inline void cp_async_16(void* to, const void* from, bool valid = true) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}

/// 4 bytes, by way of L1.
__device__ inline void cp_async_4(void* to, const void* from, bool valid = true) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// One of the arrivals that `barrier` waits for, when all copies that this thread has begun are complete.
/// Their readers through tensor cores need `fence_proxy_async` after their wait.
__device__ inline void cp_async_arrive(std::uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/// Until at most `kPending` of this thread's groups are under way.
template <int kPending>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace baleen::ptx
