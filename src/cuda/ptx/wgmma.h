/// Ordering and operand descriptors of warpgroup matrix instructions.  (PTX: wgmma.fence, commit_group,
/// wait_group)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// Before the first instruction of a group, and after ordinary writes to its registers.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most `kPending` groups are under way.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving an accumulator's reads and writes across the instructions that own it.
__device__ inline void wgmma_hold(float& d) { asm volatile("" : "+f"(d)::"memory"); }
/// The same for an operand in registers: made before what follows.
__device__ inline void wgmma_hold(std::uint32_t& a) { asm volatile("" : "+r"(a)::"memory"); }

/// The same for a register of the A operand, which the instructions read until they are done.
__device__ inline void wgmma_hold_operand(std::uint32_t a) { asm volatile("" ::"r"(a) : "memory"); }

enum class SmemSwizzle : std::uint64_t { kNone = 0, k128B = 1, k64B = 2, k32B = 3 };

/// Of a tile whose K axis is contiguous: rows of 128 (64, 32) bytes in a tile swizzled as TMA does, eight
/// rows to a group of 1024 (512, 256) bytes, which is the tile's alignment. To step along K inside the row,
/// add bytes / 16. `group_stride_bytes`: from eight rows to the next eight.
__device__ inline std::uint64_t wgmma_descriptor(const void* tile, SmemSwizzle swizzle,
                                                 std::uint32_t group_stride_bytes) {
  return static_cast<std::uint64_t>((shared_address(tile) & 0x3FFFFu) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(group_stride_bytes >> 4) << 32 |
         static_cast<std::uint64_t>(swizzle) << 62;
}

/// Of a tile of eight rows whose K axis is contiguous in chunks of 16 bytes only: row r of chunk c at
/// c * chunk_stride_bytes + 16 r. To step along K, add whole chunk strides / 16.
__device__ inline std::uint64_t wgmma_descriptor_unswizzled(const void* tile,
                                                            std::uint32_t chunk_stride_bytes) {
  return static_cast<std::uint64_t>((shared_address(tile) & 0x3FFFFu) >> 4) |
         static_cast<std::uint64_t>(chunk_stride_bytes >> 4) << 16;
}

/// Of an operand that is taken transposed: its M or N axis is contiguous, 64 (32, 16) values to a swizzled
/// row, one such row for each value of K, eight rows to a group. `group_stride_bytes`: from eight values of K
/// to the next eight; `span_stride_bytes`: from one row's values of M or N to the next row's. To step along
/// K, add bytes / 16.
__device__ inline std::uint64_t wgmma_transposed_descriptor(const void* tile, SmemSwizzle swizzle,
                                                            std::uint32_t group_stride_bytes,
                                                            std::uint32_t span_stride_bytes) {
  return static_cast<std::uint64_t>((shared_address(tile) & 0x3FFFFu) >> 4) |
         static_cast<std::uint64_t>(span_stride_bytes >> 4) << 16 |
         static_cast<std::uint64_t>(group_stride_bytes >> 4) << 32 |
         static_cast<std::uint64_t>(swizzle) << 62;
}

}  // namespace baleen::ptx
