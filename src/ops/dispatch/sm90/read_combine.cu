#include <algorithm>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/dispatch/sm90/combine_rows.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 256, kNarrowThreads = 512, kWarp = 32;

/// Of a token: its rows, wherever they are.
struct TokenRows {
  const Bf16Bits* rows[kMaxSelected];
  int holders[kMaxSelected];
  int count;
};

/// A block, or a warp, takes a token.
template <int kBlockThreads, int kTokenThreads>
__global__ void __launch_bounds__(kBlockThreads)
    read_combine_kernel(const __grid_constant__ CombineLaunch p) {
  constexpr int kTokens = kBlockThreads / kTokenThreads;  // of a block at a time
  __shared__ const Bf16Bits* arrays[kMaxPeers];
  __shared__ TokenRows found[kTokens];
  begin_exchange(p.peers);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == p.peers.place) arrays[thread] = p.y;
  if (is_peer(p.peers, thread)) {
    if (blockIdx.x == 0) tell_address(p.peers, thread, 0, p.y);
    arrays[thread] = reinterpret_cast<const Bf16Bits*>(hear_address(p.peers, thread, 0));
  }
  __syncthreads();
  const auto meet = [] {
    if constexpr (kTokenThreads == kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
  const int lane = thread % kTokenThreads;
  TokenRows& own = found[thread / kTokenThreads];
  for (int token = static_cast<int>(blockIdx.x) * kTokens + thread / kTokenThreads; token < p.num_tokens;
       token += static_cast<int>(gridDim.x) * kTokens) {
    meet();
    if (lane < kWarp) {
      find_rows(p, token, id_of_lane(p, token), own.rows, own.holders, &own.count, [&](int place, int slot) {
        const std::int64_t row = static_cast<std::int64_t>(p.peers.place) * p.places + slot;
        return arrays[place] == nullptr ? nullptr : arrays[place] + row * p.width;
      });
    }
    meet();
    for (std::int64_t column = lane * kSumValues; column < p.width; column += kTokenThreads * kSumValues) {
      add_rows(p, own.rows, own.count, token, column,
               [](int /*row*/, const uint4* /*at*/, const uint4& words) { return words; });
    }
  }
  end_exchange_when_all_done<false>(p.peers);
}

}  // namespace

void launch_read_combine(const CombineLaunch& launch, CudaContext& context) {
  constexpr const char* kName = "combining over ranks";
  if (launch.narrow_blocks > 0) {
    return launch_kernel(
        kName, read_combine_kernel<kNarrowThreads, kWarp>,
        {.grid = dim3(static_cast<unsigned>(launch.narrow_blocks)), .threads = kNarrowThreads},
        context.stream, launch);
  }
  const int blocks = std::clamp(launch.num_tokens, 1, launch.peers.max_blocks);
  launch_kernel(kName, read_combine_kernel<kThreads, kThreads>,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::sm90
