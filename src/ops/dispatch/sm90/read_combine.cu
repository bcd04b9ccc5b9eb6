#include <algorithm>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/dispatch/sm90/combine_rows.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 256;

/// A block a token.
__global__ void __launch_bounds__(kThreads) read_combine_kernel(const __grid_constant__ CombineLaunch p) {
  __shared__ const Bf16Bits* arrays[kMaxPeers];
  __shared__ const Bf16Bits* rows[kMaxSelected];
  __shared__ int holders[kMaxSelected];
  __shared__ int count;
  begin_exchange(p.peers);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == p.peers.place) arrays[thread] = p.y;
  if (is_peer(p.peers, thread)) {
    if (blockIdx.x == 0) tell_address(p.peers, thread, 0, p.y);
    arrays[thread] = reinterpret_cast<const Bf16Bits*>(hear_address(p.peers, thread, 0));
  }
  for (int token = static_cast<int>(blockIdx.x); token < p.num_tokens; token += static_cast<int>(gridDim.x)) {
    __syncthreads();
    if (thread < 32) {
      find_rows(p, token, id_of_lane(p, token), rows, holders, &count, [&](int place, int slot) {
        const std::int64_t row = static_cast<std::int64_t>(p.peers.place) * p.places + slot;
        return arrays[place] == nullptr ? nullptr : arrays[place] + row * p.width;
      });
    }
    __syncthreads();
    for (std::int64_t column = thread * kSumValues; column < p.width; column += kThreads * kSumValues) {
      add_rows(p, rows, count, token, column,
               [](int /*row*/, const uint4* /*at*/, const uint4& words) { return words; });
    }
  }
  end_exchange_when_all_done<false>(p.peers);
}

}  // namespace

void launch_read_combine(const CombineLaunch& launch, CudaContext& context) {
  const int blocks = std::clamp(launch.num_tokens, 1, launch.peers.max_blocks);
  launch_kernel("combining over ranks", read_combine_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::sm90
