#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/dispatch/cuda/dispatch_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kWarp = 32, kThreads = kBlockTokens * kWarp;

enum Array { kRows, kCodes, kScales, kIds, kWeights, kNumArrays };

/// Own arrays, and what the others tell.
__device__ void share_arrays(const DispatchLaunch& p, ArrivalArrays* arrays) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == p.peers.place) arrays[thread] = p.own;
  if (!is_peer(p.peers, thread)) return;
  if (blockIdx.x == 0) {
    const void* const own[kNumArrays] = {p.own.rows, p.own.codes, p.own.scales, p.own.ids, p.own.weights};
    for (int i = 0; i < kNumArrays; ++i) tell_address(p.peers, thread, i, own[i]);
  }
  const auto hear = [&](int array) { return hear_address(p.peers, thread, array); };
  arrays[thread] = {reinterpret_cast<Bf16Bits*>(hear(kRows)), reinterpret_cast<std::uint8_t*>(hear(kCodes)),
                    reinterpret_cast<float*>(hear(kScales)), reinterpret_cast<std::int32_t*>(hear(kIds)),
                    reinterpret_cast<float*>(hear(kWeights))};
}

/// Of every place of this sender: its expert where it is one of the receiver's.
__device__ void write_ids(const DispatchLaunch& p, const ArrivalArrays* arrays) {
  const int num_slots = p.num_tokens * p.num_selected, first_place = p.peers.place * p.places;
  for (int slot = static_cast<int>(blockIdx.x * kThreads + threadIdx.x); slot < p.places;
       slot += static_cast<int>(gridDim.x * kThreads)) {
    const std::int32_t id = slot < num_slots ? p.holders.physical(p.ids[slot], slot) : -1;
    const int holder = id >= 0 ? p.holders.place_of(id) : -1;
    for (int place = 0; place < p.peers.size; ++place) {
      if (arrays[place].ids == nullptr) continue;
      arrays[place].ids[first_place + slot] = place == holder ? id : -1;
      if (place == holder) arrays[place].weights[first_place + slot] = p.weights[slot];
    }
  }
}

/// A warp a token; it reads the row once and writes it to each of its experts.
__global__ void __launch_bounds__(kThreads)
    written_dispatch_kernel(const __grid_constant__ DispatchLaunch p, NextAtOnce order) {
  __shared__ ArrivalArrays arrays[kMaxPeers];
  begin_exchange(p.peers, order);
  share_arrays(p, arrays);
  __syncthreads();
  write_ids(p, arrays);
  const std::int64_t whole_warps = columns_of_whole_warps(p.width);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int token = static_cast<int>(blockIdx.x) * kBlockTokens + warp; token < p.num_tokens;
       token += static_cast<int>(gridDim.x) * kBlockTokens) {
    for (std::int64_t column = lane * kPieceValues; column < whole_warps; column += kWarp * kPieceValues) {
      const bool inside = column < p.width;
      const Piece piece = load_piece(p, token, inside ? column : column % kActivationGroup);
      for (int slot = 0; slot < p.num_selected; ++slot) {
        const int index = token * p.num_selected + slot;
        const std::int32_t id = p.holders.physical(p.ids[index], index);
        if (id < 0 || !inside) continue;
        const ArrivalArrays& to = arrays[p.holders.place_of(id)];
        if (to.ids != nullptr)
          store_piece(p, to, static_cast<std::int64_t>(p.peers.place) * p.places + index, column, piece);
      }
    }
  }
  end_exchange_when_all_done<true>(p.peers);
}

}  // namespace

void launch_written_dispatch(const DispatchLaunch& launch, CudaContext& context) {
  const int blocks = blocks_for_many(launch.num_tokens, launch.peers, context.num_sms);
  launch_kernel("dispatching over ranks", written_dispatch_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::BALEEN_ARCH
