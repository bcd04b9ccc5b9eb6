/// Blocks of a cluster.  (PTX: barrier.cluster, mapa, %cluster_ctarank)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Warps arrive whole: lanes that an `if` has set apart wait for each other first.
__device__ inline void cluster_arrive() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// Orders no writes of this thread.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// The address, for any load or store, of `pointer`'s place in the shared memory of block `rank` of the
/// cluster.
template <class T>
__device__ inline T* in_block(T* pointer, std::uint32_t rank) {
  std::uint64_t address;
  asm volatile("mapa.u64 %0, %1, %2;"
               : "=l"(address)
               : "l"(reinterpret_cast<std::uint64_t>(pointer)), "r"(rank));
  return reinterpret_cast<T*>(address);
}

/// From `pointer`'s place in the shared memory of block `rank`.
__device__ inline float4 load_from_block(const float4* pointer, std::uint32_t rank) {
  float4 value;
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n"
      "}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(shared_address(pointer)), "r"(rank)
      : "memory");
  return value;
}

}  // namespace baleen::ptx
