#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/dispatch/cuda/combine_rows.cuh"
#include "ops/dispatch/cuda/nccl_dispatch.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
enum Direction { kSent, kTaken };

/// Numbers those of `count` for which `is_set`, in their order: `note(i, number)`. How many there are. The
/// whole block calls it.
template <class IsSet, class Note>
__device__ int number_in_order(int count, IsSet&& is_set, Note&& note) {
  __shared__ int of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int total = 0;
  for (int first = 0; first < count; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const bool set = i < count && is_set(i);
    const unsigned votes = __ballot_sync(0xFFFFFFFFu, set);
    if (lane == 0) of_warp[warp] = __popc(votes);
    __syncthreads();
    int before = total;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before += of_warp[w];
      total += of_warp[w];
    }
    if (set) note(i, before + __popc(votes & ((1u << lane) - 1)));
    __syncthreads();
  }
  return total;
}

__device__ int tokens_in(const CountedOutputs& o, int piece) {
  const int all = o.combine.places / o.combine.num_selected, left = all - piece * o.piece_tokens;
  return left < o.piece_tokens ? left : o.piece_tokens;
}

/// A block a piece and, along y, a member.
__global__ void __launch_bounds__(kThreads)
    count_outputs_kernel(const __grid_constant__ CountedOutputs o, NextBehindWait order) {
  order.wait();
  const CombineLaunch& p = o.combine;
  const int piece = static_cast<int>(blockIdx.x), member = static_cast<int>(blockIdx.y);
  const int first = piece * o.piece_tokens * p.num_selected, count = tokens_in(o, piece) * p.num_selected;
  const bool other = member != p.peers.place;
  const std::int64_t first_row = static_cast<std::int64_t>(member) * p.places + first;
  const int sent = number_in_order(
      count, [&](int i) { return other && p.experts[first_row + i] >= 0; },
      [&](int i, int number) { o.sent_places[first_row + i] = number; });
  const int taken = number_in_order(
      count,
      [&](int i) {
        const int slot = first + i;
        if (!other || slot >= p.num_tokens * p.num_selected || p.ids[slot] < 0) return false;
        return p.holders.place_of(p.holders.physical(p.ids[slot], slot)) == member;
      },
      [&](int i, int number) { o.taken_places[first + i] = number; });
  if (threadIdx.x != 0) return;
  std::int32_t* const counts = o.counts + piece * 2 * o.num_members + member;
  counts[kSent * o.num_members] = sent;
  counts[kTaken * o.num_members] = taken;
}

/// A block a token of the piece and, along y, a member.
__global__ void __launch_bounds__(kThreads)
    pack_outputs_kernel(const __grid_constant__ CountedOutputs o, std::int32_t piece, NextBehindWait order) {
  order.wait();
  const CombineLaunch& p = o.combine;
  const int member = static_cast<int>(blockIdx.y);
  if (member == p.peers.place) return;
  const std::int64_t token = static_cast<std::int64_t>(piece) * o.piece_tokens + blockIdx.x;
  const std::int64_t first_row = static_cast<std::int64_t>(member) * p.places + token * p.num_selected;
  const std::int64_t before = o.before(piece, kSent, member);
  for (int slot = 0; slot < p.num_selected; ++slot) {
    if (p.experts[first_row + slot] < 0) continue;
    const Bf16Bits* const from = p.y + (first_row + slot) * p.width;
    Bf16Bits* const to = o.sent + (before + o.sent_places[first_row + slot]) * p.width;
    for (std::int64_t column = threadIdx.x * kSumValues; column < p.width; column += kThreads * kSumValues)
      *reinterpret_cast<uint4*>(to + column) = *reinterpret_cast<const uint4*>(from + column);
  }
}

/// A block a token of this rank.
__global__ void __launch_bounds__(kThreads)
    add_counted_kernel(const __grid_constant__ CountedOutputs o, std::int32_t piece, NextAtOnce order) {
  __shared__ const Bf16Bits* rows[kMaxSelected];
  __shared__ int holders[kMaxSelected];
  __shared__ int count;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const CombineLaunch& p = o.combine;
  const int token = piece * o.piece_tokens + static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 32) {
    find_rows(p, token, id_of_lane(p, token), rows, holders, &count, [&](int place, int slot) {
      if (place == p.peers.place) return p.y + (static_cast<std::int64_t>(place) * p.places + slot) * p.width;
      return static_cast<const Bf16Bits*>(o.arrived) +
             (o.before(piece, kTaken, place) + o.taken_places[slot]) * p.width;
    });
  }
  __syncthreads();
  for (std::int64_t column = thread * kSumValues; column < p.width; column += kThreads * kSumValues) {
    add_rows(p, rows, count, token, column,
             [](int /*row*/, const uint4* /*at*/, const uint4& words) { return words; });
  }
}

}  // namespace

void launch_count_outputs(const CountedOutputs& outputs, CudaContext& context) {
  launch_kernel(
      "counting outputs", count_outputs_kernel,
      {.grid = dim3(static_cast<unsigned>(outputs.num_pieces), static_cast<unsigned>(outputs.num_members)),
       .threads = kThreads},
      context.stream, outputs);
}

void launch_pack_outputs(const CountedOutputs& outputs, std::int32_t piece, CudaContext& context) {
  const int all = outputs.combine.places / outputs.combine.num_selected,
            left = all - piece * outputs.piece_tokens;
  const int tokens = left < outputs.piece_tokens ? left : outputs.piece_tokens;
  launch_kernel("packing outputs", pack_outputs_kernel,
                {.grid = dim3(static_cast<unsigned>(tokens), static_cast<unsigned>(outputs.num_members)),
                 .threads = kThreads},
                context.stream, outputs, piece);
}

void launch_add_counted(const CountedOutputs& outputs, std::int32_t piece, CudaContext& context) {
  const int left = outputs.combine.num_tokens - piece * outputs.piece_tokens;
  const int blocks = left < outputs.piece_tokens ? left : outputs.piece_tokens;
  if (blocks <= 0) return;
  launch_kernel("combining over ranks", add_counted_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, outputs,
                piece);
}

}  // namespace baleen::BALEEN_ARCH
