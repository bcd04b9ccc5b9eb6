#include "cuda/kernel_launch.h"
#include "ops/dispatch/cuda/staged_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
static_assert(kMaxStagedTokens <= kMaxExchangeBlocks);

/// What the member at `place` sends of its token `token`. Every warp waits for the packets, a lane each, and
/// looks at its part of the row while it does: packets say whether the row comes, and most rows do.
__device__ void receive_row(const DispatchLaunch& p, int place, int token) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, slot = lane % p.num_selected;
  const std::uint32_t flag = exchange_flag(p.peers, place);
  const std::int64_t first_row = static_cast<std::int64_t>(place) * p.places + token * p.num_selected;
  const std::int64_t first_column = thread * kPieceValues;
  const uint4* const at = inbox(p.peers.ports[place], flag) + token * p.num_selected + slot;
  std::byte* const row =
      staging_in(p.peers.ports[place], flag) + token * staged_row_bytes(p.sends_fp8, p.width);
  uint4 packet{};
  SeenPiece seen{};
  const bool came = wait_for_peer(p.peers, place, [&] {
    packet = ptx::load_volatile(at);
    if (first_column < p.width) seen = see_piece(p, row, first_column);
    return packet.y == flag && packet.w == flag;
  });
  const std::int32_t id = came ? static_cast<std::int32_t>(packet.x) : -1;
  const bool has_row = lane < p.num_selected && id >= 0;
  if (thread < p.num_selected) {
    p.own.ids[first_row + slot] = id;
    if (has_row) p.own.weights[first_row + slot] = __uint_as_float(packet.z);
  }
  const unsigned slots = __ballot_sync(0xFFFFFFFFu, has_row);
  if (slots == 0) return;
  for (std::int64_t column = first_column; column < p.width; column += kThreads * kPieceValues) {
    if (column != first_column) seen = see_piece(p, row, column);
    const Piece piece = take_piece(p, place, row, column, seen);
    for (int i = 0; i < p.num_selected; ++i) {
      if ((slots >> i & 1) != 0) store_piece(p, p.own, first_row + i, column, piece);
    }
  }
}

/// A block has the same token of every rank.
__global__ void __launch_bounds__(kThreads)
    staged_dispatch_kernel(const __grid_constant__ DispatchLaunch p, NextAtOnce order) {
  __shared__ int holders[kMaxSelected];
  begin_exchange(p.peers, order);
  const int token = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const std::int64_t own_rows = static_cast<std::int64_t>(p.peers.place) * p.places;
  const Piece first = first_piece(p, token, thread);
  tell_experts(p, token, holders, [&](int slot, std::int32_t id, float weight) {
    p.own.ids[own_rows + slot] = id;
    if (id >= 0) p.own.weights[own_rows + slot] = weight;
  });
  __syncthreads();
  if (token < p.num_tokens) {
    send_row(p, token, holders, first, thread, kThreads, [&](std::int64_t column, const Piece& piece) {
      for (int slot = 0; slot < p.num_selected; ++slot) {
        if (holders[slot] == p.peers.place)
          store_piece(p, p.own, own_rows + token * p.num_selected + slot, column, piece);
      }
    });
  }
  for (int place = 0; place < p.peers.size; ++place) {
    if (place != p.peers.place) receive_row(p, place, token);
  }
  end_exchange(p.peers);
}

}  // namespace

void launch_staged_dispatch(const DispatchLaunch& launch, CudaContext& context) {
  const int blocks = launch.places / launch.num_selected;
  launch_kernel("dispatching over ranks", staged_dispatch_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::BALEEN_ARCH
