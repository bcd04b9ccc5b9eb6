#include "ring_handover.h"

#include "cuda/kernel_launch.h"
#include "cuda/pipeline_ring.cuh"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/tensor_map.h"

namespace baleen::ring_handover {
namespace {

constexpr int kStages = 3;
constexpr int kWarp = 32;
constexpr int kReaderWarps = kReaders / kWarp;
constexpr int kThreads = kReaders + kWarp;  // the last warp loads
constexpr int kStageBytes = kWordsOfStage * static_cast<int>(sizeof(std::uint32_t));
constexpr int kClusterCtas = 2;

struct Shared {
  alignas(128) std::uint32_t words[kStages][kWordsOfStage];
  std::uint32_t beside[kStages];  ///< written by the loading thread with an ordinary store
  RingBarriers<kStages> ring;
};

/// Arrivals that free a stage.
template <Pattern kPattern>
constexpr int kFreeingArrivals = kPattern == Pattern::kEveryThreadFrees ? kReaders
                                 : kPattern == Pattern::kClusterFrees   ? kClusterCtas* kReaderWarps
                                                                        : kReaderWarps;

template <Pattern kPattern>
__device__ void fill(Shared& shared, const std::uint32_t* source, const CUtensorMap& map, int num_rounds) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  if (kPattern != Pattern::kWarpFills && lane != 0) return;
  RingPlace place;
  for (int round = 0; round < num_rounds; ++round, place.advance(kStages)) {
    const int stage = place.stage;
    shared.ring.wait_empty(place);
    const std::uint32_t* words = source + round * kWordsOfStage;
    std::uint64_t* full = shared.ring.full(place);
    if constexpr (kPattern == Pattern::kWarpFills) {
      for (int i = lane; i < kWordsOfStage; i += kWarp) shared.words[stage][i] = words[i];
      __syncwarp();
      if (lane == 0) shared.ring.fill(place);
    } else if constexpr (kPattern == Pattern::kClusterFrees) {
      constexpr int kHalf = kStageBytes / kClusterCtas;
      const auto rank = static_cast<int>(ptx::cluster_rank());
      shared.ring.expect(place, kStageBytes);
      ptx::tma_load_multicast(reinterpret_cast<std::byte*>(shared.words[stage]) + rank * kHalf, map, full,
                              rank * kHalf, round, 0b11);
    } else {
      if constexpr (kPattern == Pattern::kLoaderStoresBeside) shared.beside[stage] = round;
      shared.ring.expect(place, kStageBytes);
      ptx::bulk_load(shared.words[stage], words, kStageBytes, full);
    }
  }
}

template <Pattern kPattern>
__device__ std::uint32_t read(Shared& shared, int num_rounds) {
  const auto reader = static_cast<int>(threadIdx.x);
  const int lane = reader % kWarp;
  std::uint32_t sum = 0;
  for (int round = 0; round < num_rounds; ++round) {
    const RingPlace place = RingPlace::of<kStages>(round);
    const int stage = place.stage;
    shared.ring.wait_full(place);
    std::uint32_t words = 0;
    for (int i = reader; i < kWordsOfStage; i += kReaders) words += shared.words[stage][i];
    sum += static_cast<std::uint32_t>(round + 1) * words;
    if constexpr (kPattern == Pattern::kLoaderStoresBeside) sum += shared.beside[stage];
    if constexpr (kPattern == Pattern::kEveryThreadFrees) {
      ptx::mbarrier_arrive(shared.ring.empty(stage));
    } else if constexpr (kPattern == Pattern::kClusterFrees) {
      ptx::fence_proxy_async();
      __syncwarp();
      shared.ring.release_to_cluster<kClusterCtas>(stage, lane);
    } else {
      shared.ring.release(stage);
    }
  }
  return sum;
}

template <Pattern kPattern>
__global__ void __launch_bounds__(kThreads)
    handover_kernel(const std::uint32_t* source, const __grid_constant__ CUtensorMap map, int num_rounds,
                    std::uint32_t* out) {
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    shared.ring.init(1, kFreeingArrivals<kPattern>);
    ptx::fence_mbarrier_init();
  }
  if constexpr (kPattern == Pattern::kClusterFrees) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= kReaders) {
    fill<kPattern>(shared, source, map, num_rounds);
  } else {
    out[blockIdx.x * kReaders + threadIdx.x] = read<kPattern>(shared, num_rounds);
  }
  if constexpr (kPattern == Pattern::kClusterFrees) ptx::cluster_sync();  // both CTAs live until all arrivals
}

/// Warp 0 writes, warp 1 reads, warp 2 brings a freed stage back to warp 0. Every thread arrives for itself.
__global__ void __launch_bounds__(kThreads)
    through_third_kernel(const std::uint32_t* source, int num_rounds, std::uint32_t* out) {
  __shared__ std::uint32_t words[kStages][kWarp];
  __shared__ std::uint64_t free_to_write[kStages], written[kStages], was_read[kStages];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&free_to_write[stage], kWarp);
      ptx::mbarrier_init(&written[stage], kWarp);
      ptx::mbarrier_init(&was_read[stage], kWarp);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const auto warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  std::uint32_t sum = 0;
  for (int round = 0; round < num_rounds; ++round) {
    const int stage = round % kStages;
    const std::uint32_t parity = round / kStages % 2;
    if (warp == 0) {
      ptx::mbarrier_wait(&free_to_write[stage], parity);
      words[stage][lane] = source[round * kWordsOfStage + lane] * static_cast<std::uint32_t>(round + 1);
      ptx::mbarrier_arrive(&written[stage]);
    } else if (warp == 1) {
      ptx::mbarrier_wait(&written[stage], parity);
      sum += words[stage][lane];
      ptx::mbarrier_arrive(&was_read[stage]);
    } else {
      ptx::mbarrier_wait(&was_read[stage], parity ^ 1);
      ptx::mbarrier_arrive(&free_to_write[stage]);
    }
  }
  if (warp == 1) out[blockIdx.x * kReaders + lane] = sum;
}

/// Warps 0 and 1 add to the same words in alternate rounds.
__global__ void __launch_bounds__(kReaders)
    named_barriers_kernel(const std::uint32_t* source, int num_rounds, std::uint32_t* out) {
  __shared__ std::uint32_t words[kWarp];
  const auto warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int round = warp; round < num_rounds; round += kReaderWarps) {
    if (round > 0) ptx::named_barrier_sync(1 + static_cast<std::uint32_t>(warp), kReaders);
    std::uint32_t sum = round > 0 ? words[lane] : 0;
    sum += source[round * kWordsOfStage + lane] * static_cast<std::uint32_t>(round + 1);
    words[lane] = sum;
    if (round + 1 == num_rounds) {
      out[blockIdx.x * kReaders + lane] = sum;
    } else {
      ptx::named_barrier_arrive(1 + static_cast<std::uint32_t>(1 - warp), kReaders);
    }
  }
}

}  // namespace

void run(Pattern pattern, const std::uint32_t* source, int num_rounds, int num_ctas, std::uint32_t* out,
         CUstream_st* stream) {
  const CUtensorMap map = make_tensor_map(source, num_rounds, kStageBytes, kStageBytes, 1,
                                          kStageBytes / kClusterCtas, TileSwizzle::kNone);
  const dim3 grid(static_cast<unsigned>(num_ctas));
  const auto launch = [&](auto kernel, int cluster) {
    launch_kernel("handing on ring stages", kernel, {.grid = grid, .threads = kThreads, .cluster = cluster},
                  {stream}, source, map, num_rounds, out);
  };
  switch (pattern) {
    case Pattern::kEveryThreadFrees:
      return launch(handover_kernel<Pattern::kEveryThreadFrees>, 1);
    case Pattern::kOneLaneFrees:
      return launch(handover_kernel<Pattern::kOneLaneFrees>, 1);
    case Pattern::kLoaderStoresBeside:
      return launch(handover_kernel<Pattern::kLoaderStoresBeside>, 1);
    case Pattern::kWarpFills:
      return launch(handover_kernel<Pattern::kWarpFills>, 1);
    case Pattern::kClusterFrees:
      return launch(handover_kernel<Pattern::kClusterFrees>, kClusterCtas);
    case Pattern::kThroughThird:
      return launch_kernel("handing on through a third warp", through_third_kernel,
                           {.grid = grid, .threads = kThreads}, {stream}, source, num_rounds, out);
    case Pattern::kNamedBarriers:
      return launch_kernel("handing on by named barriers", named_barriers_kernel,
                           {.grid = grid, .threads = kReaders}, {stream}, source, num_rounds, out);
  }
}

}  // namespace baleen::ring_handover
