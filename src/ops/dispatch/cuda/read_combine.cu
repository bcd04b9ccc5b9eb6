#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/dispatch/cuda/combine_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kWarp = 32, kThreads = kBlockTokens * kWarp;

/// Of a token: its rows, wherever they are.
struct TokenRows {
  const Bf16Bits* rows[kMaxSelected];
  int holders[kMaxSelected];
  int count;
};

/// A warp a token.
__global__ void __launch_bounds__(kThreads)
    read_combine_kernel(const __grid_constant__ CombineLaunch p, NextAtOnce order) {
  __shared__ const Bf16Bits* arrays[kMaxPeers];
  __shared__ TokenRows found[kBlockTokens];
  begin_exchange(p.peers, order);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == p.peers.place) arrays[thread] = p.y;
  if (is_peer(p.peers, thread)) {
    if (blockIdx.x == 0) tell_address(p.peers, thread, 0, p.y);
    arrays[thread] = reinterpret_cast<const Bf16Bits*>(hear_address(p.peers, thread, 0));
  }
  __syncthreads();
  const int lane = thread % kWarp;
  TokenRows& own = found[thread / kWarp];
  for (int token = static_cast<int>(blockIdx.x) * kBlockTokens + thread / kWarp; token < p.num_tokens;
       token += static_cast<int>(gridDim.x) * kBlockTokens) {
    __syncwarp();
    find_rows(p, token, id_of_lane(p, token), own.rows, own.holders, &own.count, [&](int place, int slot) {
      const std::int64_t row = static_cast<std::int64_t>(p.peers.place) * p.places + slot;
      return arrays[place] == nullptr ? nullptr : arrays[place] + row * p.width;
    });
    __syncwarp();
    for (std::int64_t column = lane * kSumValues; column < p.width; column += kWarp * kSumValues) {
      add_rows(p, own.rows, own.count, token, column,
               [](int /*row*/, const uint4* /*at*/, const uint4& words) { return words; });
    }
  }
  end_exchange_when_all_done<false>(p.peers);
}

}  // namespace

void launch_read_combine(const CombineLaunch& launch, CudaContext& context) {
  const int blocks = blocks_for_many(launch.num_tokens, launch.peers, context.num_sms);
  launch_kernel("combining over ranks", read_combine_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::BALEEN_ARCH
