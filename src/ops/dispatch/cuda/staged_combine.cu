#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/dispatch/cuda/combine_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 512;
static_assert(kMaxStagedTokens <= kMaxExchangeBlocks);

/// Slots of a token of another rank that have a row here, and the flag of the exchange with it.
struct PushedSlots {
  int slots[kMaxSelected];
  int count;
  std::uint32_t flag;
};

/// One warp's work.
__device__ void find_slots(const CombineLaunch& p, int place, int token, PushedSlots* pushed) {
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = token * p.num_selected + lane;
  const std::int64_t row = static_cast<std::int64_t>(place) * p.places + slot;
  const std::uint32_t flag = exchange_flag(p.peers, place);
  const bool here = lane < p.num_selected && p.experts[row] >= 0;
  const unsigned all = __ballot_sync(0xFFFFFFFFu, here);
  if (here) pushed->slots[__popc(all & ((1u << lane) - 1))] = slot;
  if (lane == 0) {
    pushed->count = __popc(all);
    pushed->flag = flag;
  }
}

/// Outputs of this rank's experts for a token of the member at `place`.
__device__ void push_outputs(const CombineLaunch& p, int place, const PushedSlots& pushed) {
  constexpr int kLoadsInFlight = 4;
  const std::int64_t row_vectors = p.width / kSumValues;
  const auto* const from = reinterpret_cast<const uint4*>(p.y) + place * p.places * row_vectors;
  auto* const to = reinterpret_cast<uint4*>(staging_out(p.peers.ports[place], pushed.flag));
  for (int first = 0; first < pushed.count; first += kLoadsInFlight) {
    for (std::int64_t i = threadIdx.x; i < row_vectors; i += kThreads) {
      uint4 words[kLoadsInFlight];
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k)
        if (first + k < pushed.count) words[k] = from[pushed.slots[first + k] * row_vectors + i];
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k)
        if (first + k < pushed.count) stage_vector(to + pushed.slots[first + k] * row_vectors + i, words[k]);
    }
  }
}

__device__ void add_outputs(const CombineLaunch& p, int token, const Bf16Bits* const* rows,
                            const int* holders, int count) {
  for (std::int64_t column = threadIdx.x * kSumValues; column < p.width; column += kThreads * kSumValues) {
    add_rows(p, rows, count, token, column, [&](int row, const uint4* at, const uint4& words) {
      if (holders[row] == p.peers.place) return words;
      return take_staged(p.peers, holders[row], const_cast<uint4*>(at), words);
    });
  }
}

/// Whether this thread meets the member at the place of its number: a packet each way says that a rank takes
/// part also where nothing else goes. Sent first and taken last, it is no trip of its own.
__device__ bool meets(const PeerView& peers) {
  return blockIdx.x == 0 && is_peer(peers, static_cast<int>(threadIdx.x));
}

/// A block has the same token of every rank. `kPushes`: this kernel brings outputs to the tokens' ranks; else
/// those that made them have.
template <bool kPushes>
__global__ void __launch_bounds__(kThreads)
    staged_combine_kernel(const __grid_constant__ CombineLaunch p, NextAtOnce order) {
  __shared__ PushedSlots pushed[kMaxPeers];
  __shared__ const Bf16Bits* rows[kMaxSelected];
  __shared__ int holders[kMaxSelected];
  __shared__ int count;
  begin_exchange(p.peers, order);
  const int thread = static_cast<int>(threadIdx.x), token = static_cast<int>(blockIdx.x);
  for (int place = thread / 32; place < p.peers.size; place += kThreads / 32) {
    if (place == p.peers.place) continue;
    if constexpr (kPushes) {
      find_slots(p, place, token, &pushed[place]);
    } else {
      pushed[place].flag = exchange_flag(p.peers, place);
    }
  }
  const std::int32_t id = id_of_lane(p, token);  // under way together with what find_slots loads
  __syncthreads();
  if (meets(p.peers)) {
    const std::uint32_t flag = pushed[thread].flag;
    push_vector(outbox(p.peers.ports[thread], flag), flag, {});
  }
  if (thread < 32) {
    find_rows(p, token, id, rows, holders, &count, [&](int place, int slot) -> const Bf16Bits* {
      if (place == p.peers.place) return p.y + (p.first_own_row + slot) * p.width;
      const std::byte* const staging = staging_in(p.peers.ports[place], pushed[place].flag);
      return reinterpret_cast<const Bf16Bits*>(staging) + slot * p.width;
    });
  }
  if constexpr (kPushes) {
    for (int place = 0; place < p.peers.size; ++place) {
      if (place != p.peers.place) push_outputs(p, place, pushed[place]);
    }
  }
  __syncthreads();
  if constexpr (!kPushes) {
    for (int i = token * kThreads + thread; i < p.num_counters; i += static_cast<int>(gridDim.x) * kThreads)
      p.peers.counters[i] = 0;
  }
  if (token < p.num_tokens) add_outputs(p, token, rows, holders, count);
  if (meets(p.peers)) {
    const std::uint32_t flag = pushed[thread].flag;
    take_vector(p.peers, thread, inbox(p.peers.ports[thread], flag), flag);
  }
  end_exchange(p.peers);
}

void launch_blocks(void (*kernel)(CombineLaunch, NextAtOnce), const CombineLaunch& launch,
                   CudaContext& context) {
  const int blocks = launch.places / launch.num_selected;
  launch_kernel("combining over ranks", kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace

void launch_staged_combine(const CombineLaunch& launch, CudaContext& context) {
  launch_blocks(staged_combine_kernel<true>, launch, context);
}

void launch_staged_sum(const CombineLaunch& launch, CudaContext& context) {
  launch_blocks(staged_combine_kernel<false>, launch, context);
}

}  // namespace baleen::BALEEN_ARCH
