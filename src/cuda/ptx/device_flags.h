/// Counters in device memory through which the blocks of one launch hand each other what they wrote.
/// (PTX: ld.acquire, red.release, atom.acq_rel)
///
/// The writers of a piece: ordinary stores, `fence_proxy_async_all` if TMA will read them, a
/// barrier among the writers, then one of them `flag_add`. The readers: one thread waits for the count, then
/// a barrier (or that thread itself queues copies after `fence_proxy_async_all`).
#pragma once

#include <cstdint>

namespace baleen::ptx {

__device__ inline std::int32_t flag_read(const std::int32_t* flag) {
  std::int32_t value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__device__ inline void flag_add(std::int32_t* flag, std::int32_t count) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(flag), "r"(count) : "memory");
}

/// The same, and the value before; what the others that added before wrote is visible afterwards.
__device__ inline std::int32_t flag_fetch_add(std::int32_t* flag, std::int32_t count) {
  std::int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(flag), "r"(count)
               : "memory");
  return before;
}

/// Ordinary accesses to any memory before it and TMA accesses after it are ordered, and the other way
/// round.
__device__ inline void fence_proxy_async_all() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace baleen::ptx
