#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/dispatch/cuda/combine_rows.cuh"
#include "ops/dispatch/cuda/dispatch_rows.cuh"
#include "ops/dispatch/cuda/nccl_dispatch.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;

__device__ void store_packed(const DispatchLaunch& p, std::byte* row, std::int64_t column,
                             const Piece& piece) {
  auto* const at = reinterpret_cast<uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  at[0] = piece.words[0];
  if (!p.sends_fp8) {
    at[1] = piece.words[1];
  } else if (column % kActivationGroup == 0) {
    reinterpret_cast<float*>(row + p.width)[column / kActivationGroup] = piece.scale;
  }
}

__device__ Piece load_packed(const DispatchLaunch& p, const std::byte* row, std::int64_t column) {
  const auto* const at = reinterpret_cast<const uint4*>(row + (p.sends_fp8 ? column : 2 * column));
  if (!p.sends_fp8) return {{at[0], at[1]}, 0.0F};
  return {{at[0], {}}, reinterpret_cast<const float*>(row + p.width)[column / kActivationGroup]};
}

/// A block a token of this rank, or a place where it has none.
__global__ void __launch_bounds__(kThreads)
    pack_tokens_kernel(const __grid_constant__ PackedTokens t, NextBehindWait order) {
  order.wait();
  const DispatchLaunch& p = t.dispatch;
  const int token = t.first_token + static_cast<int>(blockIdx.x), k = p.num_selected;
  const bool there = token < p.num_tokens;
  std::byte* const to =
      t.packed + (static_cast<std::int64_t>(p.peers.place) * t.num_packed + blockIdx.x) * t.token_bytes;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < k) {
    const int slot = token * k + thread;
    reinterpret_cast<std::int32_t*>(to + t.row_bytes)[thread] =
        there ? p.holders.physical(p.ids[slot], slot) : -1;
    reinterpret_cast<float*>(to + t.row_bytes)[k + thread] = there ? p.weights[slot] : 0.0F;
  }
  if (!there) return;
  const std::int64_t whole_warps = columns_of_whole_warps(p.width);
  for (std::int64_t column = thread * kPieceValues; column < whole_warps; column += kThreads * kPieceValues) {
    const bool inside = column < p.width;
    const Piece piece = load_piece(p, token, inside ? column : column % kActivationGroup);
    if (inside) store_packed(p, to, column, piece);
  }
}

/// A block a token of a member, which is a y of the grid.
__global__ void __launch_bounds__(kThreads)
    place_tokens_kernel(const __grid_constant__ PackedTokens t, NextAtOnce order) {
  __shared__ std::int32_t ids[kMaxSelected];
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const DispatchLaunch& p = t.dispatch;
  const int k = p.num_selected, thread = static_cast<int>(threadIdx.x);
  const auto member = static_cast<std::int64_t>(blockIdx.y);
  const std::byte* const from = t.packed + (member * t.num_packed + blockIdx.x) * t.token_bytes;
  const std::int64_t first_row =
      member * p.places + (t.first_token + static_cast<std::int64_t>(blockIdx.x)) * k;
  bool has_row = false;
  if (thread < k) {
    const std::int32_t id = reinterpret_cast<const std::int32_t*>(from + t.row_bytes)[thread];
    has_row = id >= 0 && p.holders.place_of(id) == p.peers.place;
    ids[thread] = has_row ? id : -1;
    p.own.ids[first_row + thread] = ids[thread];
    if (has_row)
      p.own.weights[first_row + thread] = reinterpret_cast<const float*>(from + t.row_bytes)[k + thread];
  }
  if (__syncthreads_or(has_row ? 1 : 0) == 0) return;
  for (std::int64_t column = thread * kPieceValues; column < p.width; column += kThreads * kPieceValues) {
    const Piece piece = load_packed(p, from, column);
    for (int slot = 0; slot < k; ++slot) {
      if (ids[slot] >= 0) store_piece(p, p.own, first_row + slot, column, piece);
    }
  }
}

/// A block a token of this rank.
__global__ void __launch_bounds__(kThreads)
    add_returned_kernel(const __grid_constant__ ReturnedOutputs r, NextAtOnce order) {
  __shared__ const Bf16Bits* rows[kMaxSelected];
  __shared__ int holders[kMaxSelected];
  __shared__ int count;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const CombineLaunch& p = r.combine;
  const int token = r.first_token + static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  if (thread < 32) {
    find_rows(p, token, id_of_lane(p, token), rows, holders, &count, [&](int place, int slot) {
      if (place == p.peers.place) return p.y + (static_cast<std::int64_t>(place) * p.places + slot) * p.width;
      const std::int64_t first = static_cast<std::int64_t>(place) * r.num_tokens * p.num_selected;
      return r.arrived + (first + slot - r.first_token * p.num_selected) * p.width;
    });
  }
  __syncthreads();
  for (std::int64_t column = thread * kSumValues; column < p.width; column += kThreads * kSumValues) {
    add_rows(p, rows, count, token, column,
             [](int /*row*/, const uint4* /*at*/, const uint4& words) { return words; });
  }
}

}  // namespace

void launch_pack_tokens(const PackedTokens& tokens, CudaContext& context) {
  launch_kernel("packing tokens for other ranks", pack_tokens_kernel,
                {.grid = dim3(static_cast<unsigned>(tokens.num_packed)), .threads = kThreads}, context.stream,
                tokens);
}

void launch_place_tokens(const PackedTokens& tokens, CudaContext& context) {
  launch_kernel(
      "placing tokens of other ranks", place_tokens_kernel,
      {.grid = dim3(static_cast<unsigned>(tokens.num_packed), static_cast<unsigned>(tokens.num_members)),
       .threads = kThreads},
      context.stream, tokens);
}

void launch_add_returned(const ReturnedOutputs& outputs, CudaContext& context) {
  const int count = outputs.combine.num_tokens - outputs.first_token;
  const int blocks = count < outputs.num_tokens ? count : outputs.num_tokens;
  if (blocks <= 0) return;
  launch_kernel("combining over ranks", add_returned_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, outputs);
}

}  // namespace baleen::BALEEN_ARCH
