/// The ring of a pipelined kernel: stages in shared memory that pass from the threads that load to the warps
/// that read, and back, over pairs of barriers.
///
///     loader   wait_empty(place)   expect(place, bytes), copies that count on full(place)   place.advance(n)
///     reader   wait_full(place)    reads                             a release of the stage place.advance(n)
///
/// Which release is right depends on how the stage was read and what writes there next: docs/cuda.md,
/// "Rings".
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen {

/// A place in a ring, and whether it was passed an odd number of times.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance(int num_stages) {
    if (++stage == num_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  /// After `number` advances in a ring of kStages.
  template <int kStages>
  __device__ static RingPlace of(int number) {
    return {number % kStages, static_cast<std::uint32_t>(number / kStages % 2)};
  }
};

/// The barriers of a ring of up to kStages, in shared memory. The parts of a stage may be freed one by one,
/// each by readers of its own.
template <int kStages, int kParts = 1>
class RingBarriers {
 public:
  /// By one thread; `ptx::fence_mbarrier_init` and a barrier of the block or the cluster follow. `fills`:
  /// arrivals that fill a stage; `releases`: arrivals that free a part of it.
  __device__ void init(int fills, int releases, int num_stages = kStages) {
    for (int stage = 0; stage < num_stages; ++stage) {
      ptx::mbarrier_init(&full_[stage], static_cast<std::uint32_t>(fills));
      for (std::uint64_t& part : empty_[stage]) {
        ptx::mbarrier_init(&part, static_cast<std::uint32_t>(releases));
      }
    }
  }

  /// Where the copies of a stage count.
  __device__ std::uint64_t* full(const RingPlace& at) { return &full_[at.stage]; }
  __device__ void expect(const RingPlace& at, std::uint32_t bytes) {
    ptx::mbarrier_arrive_expect(full(at), bytes);
  }
  __device__ void fill(const RingPlace& at) { ptx::mbarrier_arrive(full(at)); }
  __device__ std::uint64_t* empty(int stage, int part = 0) { return &empty_[stage][part]; }
  __device__ void wait_full(const RingPlace& at) { ptx::mbarrier_wait(full(at), at.parity); }
  __device__ void wait_empty(const RingPlace& at, int part = 0) {
    ptx::mbarrier_wait(&empty_[at.stage][part], at.parity ^ 1);
  }

  /// By every warp that has read the stage, whole, with ordinary loads.
  __device__ void release(int stage) { ptx::mbarrier_release(&empty_[stage][0]); }
  /// By every warp, whole, that has read it with instructions of the tensor core alone, or whose loads went
  /// into their operands: no load is under way any more. `lane`: of the warp.
  __device__ void release_operands(int stage, int lane, int part = 0) {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(empty(stage, part));
  }
  /// To all kCtas blocks of a cluster, which each write into all of them: as `release_operands`, by warps
  /// whose lanes are together.
  template <int kCtas>
  __device__ void release_to_cluster(int stage, int lane) {
    if (lane < kCtas) ptx::mbarrier_arrive_cluster_read(empty(stage), static_cast<std::uint32_t>(lane));
  }

 private:
  std::uint64_t full_[kStages];
  std::uint64_t empty_[kStages][kParts];
};

}  // namespace baleen
