/// Stores into the shared memory of another block of the cluster that count as bytes on a barrier there, so
/// that its threads wait for the data and for nothing else.  (PTX: st.async)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// The address, for instructions on `shared::cluster`, of `pointer`'s place in the shared memory of block
/// `rank`.
__device__ inline std::uint32_t cluster_address(const void* pointer, std::uint32_t rank) {
  std::uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

/// `to` and `barrier` name places in this block's shared memory; written and counted is at the same places of
/// block `rank`, which may be this one. 4 or 16 bytes.
__device__ inline void store_async(float* to, float value, std::uint64_t* barrier, std::uint32_t rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   cluster_address(to, rank)),
               "f"(value), "r"(cluster_address(barrier, rank))
               : "memory");
}
__device__ inline void store_async(float4* to, const float4& value, std::uint64_t* barrier,
                                   std::uint32_t rank) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          cluster_address(to, rank)),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(cluster_address(barrier, rank))
      : "memory");
}

__device__ inline void store_async(uint4* to, const uint4& value, std::uint64_t* barrier,
                                   std::uint32_t rank) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          cluster_address(to, rank)),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(cluster_address(barrier, rank))
      : "memory");
}

/// `mbarrier_wait` for what other blocks of the cluster did.
__device__ inline void mbarrier_wait_cluster(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.b32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

}  // namespace baleen::ptx
