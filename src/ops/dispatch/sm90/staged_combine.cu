#include <algorithm>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/dispatch/sm90/combine_rows.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 512;

/// Slots of the token of the member at `place` that have a row here. One warp's work.
__device__ void find_slots(const CombineLaunch& p, int place, int token, int* slots, int* count) {
  const int lane = static_cast<int>(threadIdx.x), slot = token * p.num_selected + lane;
  const std::int64_t row = static_cast<std::int64_t>(place) * p.places + slot;
  const bool here = lane < p.num_selected && p.experts[row] >= 0;
  const unsigned all = __ballot_sync(0xFFFFFFFFu, here);
  if (here) slots[__popc(all & ((1u << lane) - 1))] = slot;
  if (lane == 0) *count = __popc(all);
}

/// Outputs of this rank's experts for one token of the member at `place`.
__device__ void push_outputs(const CombineLaunch& p, int place, int token, int* slots, int* count) {
  constexpr int kLoadsInFlight = 4;
  if (threadIdx.x < 32) find_slots(p, place, token, slots, count);
  __syncthreads();
  const std::uint32_t flag = exchange_flag(p.peers, place);
  const std::int64_t row_vectors = p.width / kSumValues;
  const auto* const from = reinterpret_cast<const uint4*>(p.y) + place * p.places * row_vectors;
  auto* const to = reinterpret_cast<uint4*>(staging_out(p.peers.ports[place], flag));
  for (int first = 0; first < *count; first += kLoadsInFlight) {
    for (std::int64_t i = threadIdx.x; i < row_vectors; i += kThreads) {
      uint4 words[kLoadsInFlight];
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k)
        if (first + k < *count) words[k] = from[slots[first + k] * row_vectors + i];
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k)
        if (first + k < *count) stage_vector(to + slots[first + k] * row_vectors + i, words[k]);
    }
  }
  __syncthreads();
}

__device__ void add_outputs(const CombineLaunch& p, int token, const Bf16Bits** rows, int* holders,
                            int* count) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 32) {
    find_rows(p, token, rows, holders, count, [&](int place, int slot) -> const Bf16Bits* {
      if (place == p.peers.place) return p.y + (static_cast<std::int64_t>(place) * p.places + slot) * p.width;
      const std::byte* const staging = staging_in(p.peers.ports[place], exchange_flag(p.peers, place));
      return reinterpret_cast<const Bf16Bits*>(staging) + slot * p.width;
    });
  }
  __syncthreads();
  for (std::int64_t column = thread * kSumValues; column < p.width; column += kThreads * kSumValues) {
    add_rows(p, rows, *count, token, column, [&](int row, const uint4* at, const uint4& words) {
      if (holders[row] == p.peers.place) return words;
      return take_staged(p.peers, holders[row], const_cast<uint4*>(at), words);
    });
  }
}

/// That this rank takes part: a packet each way, also where nothing else goes.
__device__ void meet(const PeerView& peers) {
  const int place = static_cast<int>(threadIdx.x);
  if (blockIdx.x != 0 || !is_peer(peers, place)) return;
  const std::uint32_t flag = exchange_flag(peers, place);
  push_vector(outbox(peers.ports[place], flag), flag, {});
  take_vector(peers, place, inbox(peers.ports[place], flag), flag);
}

/// A block has the same tokens of every rank.
__global__ void __launch_bounds__(kThreads) staged_combine_kernel(const __grid_constant__ CombineLaunch p) {
  __shared__ const Bf16Bits* rows[kMaxSelected];
  __shared__ int slots[kMaxSelected];
  __shared__ int holders[kMaxSelected];
  __shared__ int count;
  ptx::launch_next_kernel();
  ptx::wait_for_previous_kernel();
  const int most_tokens = p.places / p.num_selected;
  for (int token = static_cast<int>(blockIdx.x); token < most_tokens; token += static_cast<int>(gridDim.x)) {
    for (int place = 0; place < p.peers.size; ++place) {
      if (place != p.peers.place) push_outputs(p, place, token, slots, &count);
    }
  }
  for (int token = static_cast<int>(blockIdx.x); token < most_tokens; token += static_cast<int>(gridDim.x)) {
    __syncthreads();
    if (token < p.num_tokens) add_outputs(p, token, rows, holders, &count);
  }
  meet(p.peers);
  end_exchange(p.peers);
}

}  // namespace

void launch_staged_combine(const CombineLaunch& launch, CudaContext& context) {
  const int blocks = std::min(launch.places / launch.num_selected, kMaxExchangeBlocks);
  launch_kernel("combining over ranks", staged_combine_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::sm90
