/// Rows and ids of tokens on their way through staging and inboxes of other ranks, whoever takes them there.
#pragma once

#include "comm/peer/peer_exchange.cuh"
#include "ops/dispatch/cuda/dispatch_rows.cuh"

namespace baleen::BALEEN_ARCH {

/// Bytes of a staged row: codes and scales, or BF16 values.
__host__ __device__ constexpr std::int64_t staged_row_bytes(bool fp8, std::int64_t width) {
  constexpr std::int64_t kVector = 16;
  const std::int64_t scales = width / kActivationGroup * std::int64_t{sizeof(float)};
  return fp8 ? width + (scales + kVector - 1) / kVector * kVector : 2 * width;
}

__device__ inline void stage_piece(const DispatchLaunch& p, std::byte* row, std::int64_t column,
                                   const Piece& piece) {
  auto* const at = reinterpret_cast<uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  stage_vector(at, piece.words[0]);
  if (!p.sends_fp8) {
    stage_vector(at + 1, piece.words[1]);
  } else if (column % kActivationGroup == 0) {  // a scale is no NaN
    reinterpret_cast<volatile float*>(row + p.width)[column / kActivationGroup] = piece.scale;
  }
}

/// A piece as a first look finds it in staging, perhaps with empty words.
struct SeenPiece {
  uint4 words[2];
  std::uint32_t scale;
};

__device__ inline volatile std::uint32_t* staged_scale(const DispatchLaunch& p, std::byte* row,
                                                       std::int64_t column) {
  return reinterpret_cast<volatile std::uint32_t*>(row + p.width) + column / kActivationGroup;
}

__device__ inline SeenPiece see_piece(const DispatchLaunch& p, std::byte* row, std::int64_t column) {
  const auto* const at = reinterpret_cast<const uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  SeenPiece seen{{ptx::load_volatile(at), {}}, kEmptyWord};
  if (!p.sends_fp8) {
    seen.words[1] = ptx::load_volatile(at + 1);
  } else if (column % kActivationGroup == 0) {
    seen.scale = *staged_scale(p, row, column);
  }
  return seen;
}

__device__ inline float take_scale(const DispatchLaunch& p, int place, volatile std::uint32_t* at,
                                   std::uint32_t bits) {
  if (bits == kEmptyWord) wait_for_peer(p.peers, place, [&] { return (bits = *at) != kEmptyWord; });
  *at = kEmptyWord;
  return __uint_as_float(bits);
}

__device__ inline Piece take_piece(const DispatchLaunch& p, int place, std::byte* row, std::int64_t column,
                                   const SeenPiece& seen) {
  auto* const at = reinterpret_cast<uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  Piece piece{};
  if (!p.sends_fp8) {
    piece.words[1] = take_staged(p.peers, place, at + 1, seen.words[1]);
  } else if (column % kActivationGroup == 0) {
    piece.scale = take_scale(p, place, staged_scale(p, row, column), seen.scale);
  }
  piece.words[0] = take_staged(p.peers, place, at, seen.words[0]);
  return piece;
}

/// Experts and weights of a token's slots, to every other rank, where those of others count as none.
/// `holders`: out: the place of each slot's expert, -1: none. `own(slot, id, weight)`: what this rank has of
/// them, -1 for an expert of another. All threads of the block.
template <class Own>
__device__ void tell_experts(const DispatchLaunch& p, int token, int* holders, Own&& own) {
  for (int i = static_cast<int>(threadIdx.x); i < p.peers.size * p.num_selected;
       i += static_cast<int>(blockDim.x)) {
    const int place = i / p.num_selected, slot = token * p.num_selected + i % p.num_selected;
    const std::uint32_t flag = place == p.peers.place ? 0 : exchange_flag(p.peers, place);
    const std::int32_t id = token < p.num_tokens ? p.holders.physical(p.ids[slot], slot) : -1;
    const bool there = id >= 0 && p.holders.place_of(id) == place;
    const float weight = token < p.num_tokens ? p.weights[slot] : 0.0F;
    if (place == p.peers.place) {
      holders[i % p.num_selected] = id >= 0 ? p.holders.place_of(id) : -1;
      own(slot, there ? id : -1, weight);
    } else {
      ptx::store_volatile(outbox(p.peers.ports[place], flag) + slot,
                          {static_cast<std::uint32_t>(there ? id : -1), flag, __float_as_uint(weight), flag});
    }
  }
}

/// The token's row, once to each other rank that has an expert of it. `holders`: of `tell_experts`; `first`:
/// the piece at this thread's first column. Thread `thread` of `num_threads`, which are whole warps.
/// `own(column, piece)`: what this rank does with it where it has an expert of it.
template <class Own>
__device__ void send_row(const DispatchLaunch& p, int token, const int* holders, const Piece& first,
                         int thread, int num_threads, Own&& own) {
  std::uint32_t places = 0;
  for (int slot = 0; slot < p.num_selected; ++slot) {
    if (holders[slot] >= 0) places |= 1u << holders[slot];
  }
  const std::int64_t row_bytes = staged_row_bytes(p.sends_fp8, p.width);
  const std::int64_t whole_warps = columns_of_whole_warps(p.width);
  const std::int64_t first_column = thread * kPieceValues;
  for (std::int64_t column = first_column; column < whole_warps; column += num_threads * kPieceValues) {
    const bool inside = column < p.width;
    const Piece piece =
        column == first_column ? first : load_piece(p, token, inside ? column : column % kActivationGroup);
    if (!inside) continue;
    for (int place = 0; place < p.peers.size; ++place) {
      if ((places >> place & 1) == 0) continue;
      if (place == p.peers.place) {
        own(column, piece);
      } else {
        const PeerPort& port = p.peers.ports[place];
        stage_piece(p, staging_out(port, exchange_flag(p.peers, place)) + token * row_bytes, column, piece);
      }
    }
  }
}

/// The piece of a token at this thread's first column, of a token that there is.
__device__ inline Piece first_piece(const DispatchLaunch& p, int token, int thread) {
  const std::int64_t column = thread * kPieceValues;
  if (token >= p.num_tokens || column >= columns_of_whole_warps(p.width)) return {};
  return load_piece(p, token, column < p.width ? column : column % kActivationGroup);
}

}  // namespace baleen::BALEEN_ARCH
