/// Bulk copies of contiguous bytes.  (PTX: cp.async.bulk)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// Device to shared memory. Both addresses and `bytes` are multiples of 16; the bytes count on `barrier`.
__device__ inline void bulk_load(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// From shared memory to the same place in block `rank` of the cluster, where the bytes count on the barrier
/// at `barrier`'s place. `from` and `bytes` are multiples of 16.
__device__ inline void bulk_copy_to_block(const void* from, std::uint32_t bytes, std::uint64_t* barrier,
                                          std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 to, remote_barrier;\n"
      "mapa.shared::cluster.u32 to, %0, %3;\n"
      "mapa.shared::cluster.u32 remote_barrier, %2, %3;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%0], %1, "
      "[remote_barrier];\n"
      "}\n" ::"r"(shared_address(from)),
      "r"(bytes), "r"(shared_address(barrier)), "r"(rank)
      : "memory");
}

/// Bytes that a kernel to come will read, into L2.
__device__ inline void bulk_prefetch_l2(const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

}  // namespace baleen::ptx
