/// A ring of stages in shared memory between the threads that load and the warps that multiply.
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::sm90 {

constexpr int kMaxStages = 32;

/// A place in the ring, and whether it was passed an odd number of times.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance(int num_stages) {
    if (++stage == num_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Of a block, in its static shared memory.
struct RingBarriers {
  std::uint64_t full[kMaxStages];
  std::uint64_t empty[kMaxStages];

  /// By one thread. `loaders`: threads that each load a part of a stage; `readers`: arrivals that free it.
  __device__ void init(int num_stages, int loaders, int readers) {
    for (int stage = 0; stage < num_stages; ++stage) {
      ptx::mbarrier_init(&full[stage], static_cast<std::uint32_t>(loaders));
      ptx::mbarrier_init(&empty[stage], static_cast<std::uint32_t>(readers));
    }
    ptx::fence_mbarrier_init();
  }
};

/// A stage is a piece of weights and the tokens that meet it.
struct Ring {
  std::byte* stages;
  RingBarriers& barriers;
  int num_stages;
  int weight_bytes;
  int stage_bytes;

  __device__ std::byte* weights(const RingPlace& at) const { return stages + at.stage * stage_bytes; }
  __device__ std::byte* tokens(const RingPlace& at) const { return weights(at) + weight_bytes; }
  __device__ std::uint64_t* full(const RingPlace& at) const { return &barriers.full[at.stage]; }
  __device__ void wait_full(const RingPlace& at) const { ptx::mbarrier_wait(full(at), at.parity); }
  __device__ void wait_empty(const RingPlace& at) const {
    ptx::mbarrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
  }
  /// By every warp that has read it, whole, with instructions of the tensor core: what it loaded itself went
  /// into their operands, so no load is under way any more.
  __device__ void release(int stage, int lane) const {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&barriers.empty[stage]);
  }
};

}  // namespace baleen::sm90
