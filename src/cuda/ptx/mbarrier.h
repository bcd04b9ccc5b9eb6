/// mbarrier: arrival counts and bytes in flight, in shared memory.  (PTX: mbarrier.*)
#pragma once

#include <cstdint>

namespace baleen::ptx {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void mbarrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

/// Makes initialised barriers visible to TMA and to the other blocks of the cluster.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Ordinary accesses to shared memory before it come before those of tensor cores and TMA after it:
/// stores are seen, and loads that are still under way see nothing that is written later (in each thread,
/// before the barrier that they meet at).
__device__ inline void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void mbarrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// By a whole warp that has read a stage with ordinary loads: TMA may write there again. An
/// arrival alone may overtake loads under way, which then see what comes next: on an H100 in one call of
/// experts out of eight.
__device__ inline void mbarrier_release(std::uint64_t* barrier) {
  fence_proxy_async();
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

/// On the barrier at the same place in block `cta_rank` of the cluster, ordering nothing of this thread's
/// writes for other blocks (which would cost a fence): to say that something has been read.
__device__ inline void mbarrier_arrive_cluster_read(std::uint64_t* barrier, std::uint32_t cta_rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(cta_rank)
      : "memory");
}

/// One arrival, and that many bytes will be written by TMA before the phase ends.
__device__ inline void mbarrier_arrive_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ inline bool mbarrier_try_wait(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.b32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

/// Until the phase of that parity is complete. A fresh barrier is in phase 0; waiting for parity 1 returns at
/// once.
__device__ inline void mbarrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

}  // namespace baleen::ptx
