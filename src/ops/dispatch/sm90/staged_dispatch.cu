#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/dispatch/sm90/dispatch_rows.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 256;
static_assert(kMaxStagedTokens <= kMaxExchangeBlocks);

/// Bytes of a staged row: codes and scales, or BF16 values.
__host__ __device__ constexpr std::int64_t staged_row_bytes(bool fp8, std::int64_t width) {
  constexpr std::int64_t kVector = 16;
  const std::int64_t scales = width / kFp8RowBlock * std::int64_t{sizeof(float)};
  return fp8 ? width + (scales + kVector - 1) / kVector * kVector : 2 * width;
}

__device__ void stage_piece(const DispatchLaunch& p, std::byte* row, std::int64_t column,
                            const Piece& piece) {
  auto* const at = reinterpret_cast<uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  stage_vector(at, piece.words[0]);
  if (!p.sends_fp8) {
    stage_vector(at + 1, piece.words[1]);
  } else if (column % kFp8RowBlock == 0) {  // a scale is no NaN
    reinterpret_cast<volatile float*>(row + p.width)[column / kFp8RowBlock] = piece.scale;
  }
}

/// A piece as a first look finds it in staging, perhaps with empty words.
struct SeenPiece {
  uint4 words[2];
  std::uint32_t scale;
};

__device__ volatile std::uint32_t* staged_scale(const DispatchLaunch& p, std::byte* row,
                                                std::int64_t column) {
  return reinterpret_cast<volatile std::uint32_t*>(row + p.width) + column / kFp8RowBlock;
}

__device__ SeenPiece see_piece(const DispatchLaunch& p, std::byte* row, std::int64_t column) {
  const auto* const at = reinterpret_cast<const uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  SeenPiece seen{{ptx::load_volatile(at), {}}, kEmptyWord};
  if (!p.sends_fp8) {
    seen.words[1] = ptx::load_volatile(at + 1);
  } else if (column % kFp8RowBlock == 0) {
    seen.scale = *staged_scale(p, row, column);
  }
  return seen;
}

__device__ float take_scale(const DispatchLaunch& p, int place, volatile std::uint32_t* at,
                            std::uint32_t bits) {
  if (bits == kEmptyWord) wait_for_peer(p.peers, place, [&] { return (bits = *at) != kEmptyWord; });
  *at = kEmptyWord;
  return __uint_as_float(bits);
}

__device__ Piece take_piece(const DispatchLaunch& p, int place, std::byte* row, std::int64_t column,
                            const SeenPiece& seen) {
  auto* const at = reinterpret_cast<uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  Piece piece{};
  if (!p.sends_fp8) {
    piece.words[1] = take_staged(p.peers, place, at + 1, seen.words[1]);
  } else if (column % kFp8RowBlock == 0) {
    piece.scale = take_scale(p, place, staged_scale(p, row, column), seen.scale);
  }
  piece.words[0] = take_staged(p.peers, place, at, seen.words[0]);
  return piece;
}

/// Experts and weights of a token's slots, to every rank: there, those of other ranks count as none.
__device__ void tell_experts(const DispatchLaunch& p, int token, int* holders) {
  for (int i = static_cast<int>(threadIdx.x); i < p.peers.size * p.num_selected; i += kThreads) {
    const int place = i / p.num_selected, slot = token * p.num_selected + i % p.num_selected;
    const std::uint32_t flag = place == p.peers.place ? 0 : exchange_flag(p.peers, place);
    const std::int32_t id = token < p.num_tokens ? p.holders.physical(p.ids[slot], slot) : -1;
    const bool there = id >= 0 && p.holders.place_of(id) == place;
    const float weight = token < p.num_tokens ? p.weights[slot] : 0.0F;
    if (place == p.peers.place) {
      holders[i % p.num_selected] = id >= 0 ? p.holders.place_of(id) : -1;
      const int row = place * p.places + slot;
      p.own.ids[row] = there ? id : -1;
      if (there) p.own.weights[row] = weight;
    } else {
      ptx::store_volatile(outbox(p.peers.ports[place], flag) + slot,
                          {static_cast<std::uint32_t>(there ? id : -1), flag, __float_as_uint(weight), flag});
    }
  }
}

/// The token's row: to its places here, and once to each other rank that has an expert of it.
/// `holders`: the place of each slot's expert, -1: none. `first`: the thread's first piece.
__device__ void send_row(const DispatchLaunch& p, int token, const int* holders, Piece first) {
  std::uint32_t places = 0;
  for (int slot = 0; slot < p.num_selected; ++slot) {
    if (holders[slot] >= 0) places |= 1u << holders[slot];
  }
  const std::int64_t row_bytes = staged_row_bytes(p.sends_fp8, p.width);
  const std::int64_t whole_warps = columns_of_whole_warps(p.width);
  const std::int64_t first_column = threadIdx.x * kPieceValues;
  for (std::int64_t column = first_column; column < whole_warps; column += kThreads * kPieceValues) {
    const bool inside = column < p.width;
    const Piece piece =
        column == first_column ? first : load_piece(p, token, inside ? column : column % kFp8RowBlock);
    if (!inside) continue;
    for (int place = 0; place < p.peers.size; ++place) {
      if ((places >> place & 1) == 0) continue;
      if (place != p.peers.place) {
        const PeerPort& port = p.peers.ports[place];
        stage_piece(p, staging_out(port, exchange_flag(p.peers, place)) + token * row_bytes, column, piece);
        continue;
      }
      const std::int64_t first_row = static_cast<std::int64_t>(place) * p.places + token * p.num_selected;
      for (int slot = 0; slot < p.num_selected; ++slot) {
        if (holders[slot] == place) store_piece(p, p.own, first_row + slot, column, piece);
      }
    }
  }
}

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
__global__ void __launch_bounds__(kThreads) staged_dispatch_kernel(const __grid_constant__ DispatchLaunch p) {
  __shared__ int holders[kMaxSelected];
  begin_exchange(p.peers);
  const int token = static_cast<int>(blockIdx.x);
  const std::int64_t column = threadIdx.x * kPieceValues;
  Piece first{};
  if (token < p.num_tokens && column < columns_of_whole_warps(p.width))
    first = load_piece(p, token, column < p.width ? column : column % kFp8RowBlock);
  tell_experts(p, token, holders);
  __syncthreads();
  if (token < p.num_tokens) send_row(p, token, holders, first);
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

}  // namespace baleen::sm90
