/// How the blocks that share a row of logits put together what each of their warps has found.
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/store_async.h"
#include "cuda/warp_reduce.cuh"

namespace baleen {

inline constexpr int kBlocksPerRow = 8;  ///< the largest portable cluster
inline constexpr int kThreadsPerBlock = 512;
inline constexpr int kWarpsPerBlock = kThreadsPerBlock / kWarpLanes;
inline constexpr int kWarpsPerRow = kBlocksPerRow * kWarpsPerBlock;

/// In shared memory, the same in every block of the cluster. It has two sides: one is written while the other may still be
/// read, and before a side is written again every block has told something on the other one.
struct BoardMemory {
  uint4 of_warps[2][kWarpsPerRow];
  uint4 of_blocks[2][kBlocksPerRow];
  uint4 of_block[kWarpsPerBlock];  ///< this block's warps
  std::uint64_t barriers[2];
};

/// A phase begins, everybody sends, and it ends when all that was announced has arrived.
class RowBoard {
 public:
  /// Then the blocks of the cluster have to meet, before anything is sent.
  __device__ explicit RowBoard(BoardMemory& memory) : memory_(memory) {
    if (threadIdx.x != 0) return;
    for (std::uint64_t& barrier : memory.barriers) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
  }

  [[nodiscard]] __device__ int lane() const { return lane_; }
  [[nodiscard]] __device__ int warp() const { return warp_; }  ///< of the row's
  [[nodiscard]] __device__ int warp_of_block() const { return warp_ % kWarpsPerBlock; }

  /// Every warp's part, once all have told theirs.
  __device__ const uint4* exchange(const uint4& mine) {
    uint4* side = memory_.of_warps[phase_ % 2];
    std::uint64_t* barrier = begin_phase(sizeof(memory_.of_warps[0]));
    if (lane_ < kBlocksPerRow)
      ptx::store_async(&side[warp_], mine, barrier, static_cast<std::uint32_t>(lane_));
    end_phase();
    return side;
  }

  /// The parts of all warps together. A block's are put together before they are sent: messages cost more than barriers.
  template <class Part>
  __device__ Part over_row(const Part& mine) {
    if (lane_ == 0) memory_.of_block[warp_of_block()] = mine.words();
    __syncthreads();
    uint4* side = memory_.of_blocks[phase_ % 2];
    std::uint64_t* barrier = begin_phase(sizeof(memory_.of_blocks[0]));
    if (warp_of_block() == 0) {
      const Part part = lane_ < kWarpsPerBlock ? Part::from(memory_.of_block[lane_]) : Part::none();
      const Part block = Part::of_warp(part);
      if (lane_ < kBlocksPerRow) {
        ptx::store_async(&side[warp_ / kWarpsPerBlock], block.words(), barrier,
                         static_cast<std::uint32_t>(lane_));
      }
    }
    end_phase();
    return Part::of_warp(lane_ < kBlocksPerRow ? Part::from(side[lane_]) : Part::none());
  }

  /// A phase in which every block is sent `bytes` by whoever has them, to the barrier returned. Every block sends a word of
  /// its own too: who comes to the end knows that all have read what came before.
  __device__ std::uint64_t* begin_phase_of_blocks(std::uint32_t bytes) {
    __syncthreads();
    uint4* side = memory_.of_blocks[phase_ % 2];
    std::uint64_t* barrier = begin_phase(bytes + static_cast<std::uint32_t>(sizeof(memory_.of_blocks[0])));
    if (warp_of_block() == 0 && lane_ < kBlocksPerRow) {
      ptx::store_async(&side[warp_ / kWarpsPerBlock], uint4{}, barrier, static_cast<std::uint32_t>(lane_));
    }
    return barrier;
  }
  __device__ void end_phase() {
    ptx::mbarrier_wait_cluster(&memory_.barriers[phase_ % 2], static_cast<std::uint32_t>(phase_ / 2 % 2));
    ++phase_;
  }

 private:
  __device__ std::uint64_t* begin_phase(std::uint32_t bytes) {
    std::uint64_t* barrier = &memory_.barriers[phase_ % 2];
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(barrier, bytes);
    return barrier;
  }

  BoardMemory& memory_;
  const int lane_ = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp_ =
      static_cast<int>(ptx::cluster_rank()) * kWarpsPerBlock + static_cast<int>(threadIdx.x) / kWarpLanes;
  int phase_ = 0;
};

}  // namespace baleen
