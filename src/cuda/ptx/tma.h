/// Bulk tensor copies: boxes of a tensor map between device and shared memory.  (PTX: cp.async.bulk.tensor)
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// What to keep in L2: created constants of `createpolicy`, as CUTLASS names them.
enum class L2Hint : std::uint64_t {
  kNormal = 0x1000000000000000,
  kEvictFirst = 0x12F0000000000000,  ///< read once: weights
  kEvictLast = 0x14F0000000000000    ///< read by many blocks
};

__device__ inline void tma_prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(&map)) : "memory");
}

/// Box at (byte, row) of `map` to `to` (128-byte aligned; 1024 with a 128-byte swizzle); its bytes count on
/// `barrier`.
__device__ inline void tma_load(void* to, const CUtensorMap& map, std::uint64_t* barrier, int byte, int row,
                                L2Hint hint = L2Hint::kNormal) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%3, "
      "%4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(shared_address(barrier)), "r"(byte), "r"(row),
      "l"(static_cast<std::uint64_t>(hint))
      : "memory");
}

__device__ inline void tma_load(void* to, const CUtensorMap& map, std::uint64_t* barrier, int byte, int row,
                                int matrix, L2Hint hint = L2Hint::kNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%3, "
      "%4, %5}], [%2], %6;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(shared_address(barrier)), "r"(byte), "r"(row),
      "r"(matrix), "l"(static_cast<std::uint64_t>(hint))
      : "memory");
}

/// The same box to every block of the cluster whose bit is set, at the same place, on its own barrier.
__device__ inline void tma_load_multicast(void* to, const CUtensorMap& map, std::uint64_t* barrier, int byte,
                                          int row, std::uint16_t cta_mask, L2Hint hint = L2Hint::kNormal) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
      "cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(shared_address(barrier)), "r"(byte), "r"(row),
      "h"(cta_mask), "l"(static_cast<std::uint64_t>(hint))
      : "memory");
}

__device__ inline void tma_load_multicast(void* to, const CUtensorMap& map, std::uint64_t* barrier, int byte,
                                          int row, int matrix, std::uint16_t cta_mask,
                                          L2Hint hint = L2Hint::kNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
      "cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(shared_address(barrier)), "r"(byte), "r"(row),
      "r"(matrix), "h"(cta_mask), "l"(static_cast<std::uint64_t>(hint))
      : "memory");
}

/// From shared memory to the box at (byte, row); bytes outside the matrix are dropped. Then
/// `tma_store_commit`.
__device__ inline void tma_store(const CUtensorMap& map, const void* from, int byte, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                   reinterpret_cast<std::uint64_t>(&map)),
               "r"(shared_address(from)), "r"(byte), "r"(row)
               : "memory");
}

__device__ inline void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Until what this thread's groups write is in memory.
__device__ inline void tma_store_complete() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Until at most `kPending` groups of this thread still read shared memory.
template <int kPending>
__device__ inline void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace baleen::ptx
