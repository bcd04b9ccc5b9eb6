#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/device_flags.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/warp_reduce.cuh"
#include "ops/dispatch/cuda/staged_rows.cuh"
#include "ops/experts/cuda/expert_plan.cuh"
#include "ops/experts/cuda/expert_rows.h"
#include "ops/fused_experts/sm90/fused_experts.h"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = kPlanThreads;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kRowThreads = 256;  // that move one row
constexpr int kRowGroups = kThreads / kRowThreads;

/// Where an assignment goes.
struct PlannedRow {
  int row;  ///< -1: nowhere
  int tile;
};

/// Of a block, besides the expert of every place, which is [size, places] of dynamic memory.
struct PlanMemory {
  int assignments[kThreads];  ///< how many each expert has
  int first_row[kThreads];
  int first_tile[kThreads];
  int warp_sums[kWarps];
  PlannedRow planned[kMaxPeers * kMaxSelected];  ///< rows that the block's token of each rank has
  PlannedRow shared;                             ///< its own token's row for the shared expert
  int holders[kMaxSelected];
  std::uint32_t flags[kMaxPeers];  ///< flag of the exchange with each rank
};

/// The experts of all places, own ids and those that others tell, and how many each has.
__device__ void hear_experts(const FusedDispatchLaunch& p, std::int16_t* experts, int* assignments) {
  constexpr int kLoads = 4;
  const DispatchLaunch& sent = p.sent;
  const auto note = [&](int index, std::int32_t id) {
    const int expert = p.input.local_expert(id);
    experts[index] = static_cast<std::int16_t>(expert);
    if (expert >= 0) atomicAdd(&assignments[expert], 1);
  };
  const int num_slots = sent.num_tokens * sent.num_selected;
  for (int place = 0; place < sent.peers.size; ++place) {
    const int first_index = place * sent.places;
    if (place == sent.peers.place) {
      for (int slot = static_cast<int>(threadIdx.x); slot < sent.places; slot += kThreads)
        note(first_index + slot, slot < num_slots ? sent.holders.physical(sent.ids[slot], slot) : -1);
      continue;
    }
    const std::uint32_t flag = exchange_flag(sent.peers, place);
    const uint4* const packets = inbox(sent.peers.ports[place], flag);
    const auto is_there = [&](const uint4& packet) { return packet.y == flag && packet.w == flag; };
    for (int first = static_cast<int>(threadIdx.x); first < sent.places; first += kLoads * kThreads) {
      uint4 seen[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        seen[i] = ptx::load_volatile(packets + min(first + i * kThreads, sent.places - 1));
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int slot = first + i * kThreads;
        if (slot >= sent.places) break;
        const bool came = is_there(seen[i]) || wait_for_peer(sent.peers, place, [&] {
                            seen[i] = ptx::load_volatile(packets + slot);
                            return is_there(seen[i]);
                          });
        note(first_index + slot, came ? static_cast<std::int32_t>(seen[i].x) : -1);
      }
    }
  }
}

/// Of the places before `index`, how many have `expert`. One warp's work.
__device__ int earlier_assignments(const std::int16_t* experts, int index, int expert) {
  const auto* const pairs = reinterpret_cast<const std::uint32_t*>(experts);
  const std::uint32_t wanted = static_cast<std::uint32_t>(expert) * 0x00010001u;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  int bits = 0;
  for (int i = lane; i < index / 2; i += kWarpLanes) bits += __popc(__vcmpeq2(pairs[i], wanted));
  int count = bits / 16;
  if (lane == 0 && index % 2 != 0 && experts[index - 1] == expert) ++count;
  return warp_sum(count);
}

/// Where outputs go: by rank to its staging of the exchange that follows this one, then the shared expert's.
__device__ void write_output_arrays(const FusedDispatchLaunch& p, const PlanMemory& memory) {
  const PeerView& peers = p.sent.peers;
  const int place = static_cast<int>(threadIdx.x);
  if (place > peers.size) return;
  const void* array = p.shared_outputs;
  if (place == peers.place) {
    array = p.own_outputs;
  } else if (place < peers.size) {
    array = staging_out(peers.ports[place], memory.flags[place] + 1);
  }
  p.output_arrays[place] = reinterpret_cast<unsigned long long>(array);
}

/// The rows of the block's token of each rank: where they are, with which weight, and where outputs go.
__device__ void plan_rows(const FusedDispatchLaunch& p, int token, const std::int16_t* experts,
                          PlanMemory& memory) {
  const DispatchLaunch& sent = p.sent;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int i = warp; i < sent.peers.size * sent.num_selected; i += kWarps) {
    const int place = i / sent.num_selected, slot = token * sent.num_selected + i % sent.num_selected;
    const int index = place * sent.places + slot, expert = experts[index];
    PlannedRow planned{-1, 0};
    if (expert >= 0) {
      const int before = earlier_assignments(experts, index, expert);
      const TileCuts cuts(memory.assignments[expert], p.input.tile_tokens);
      planned = {memory.first_row[expert] + before, memory.first_tile[expert] + cuts.tile_of(before)};
    }
    if (lane != 0) continue;
    memory.planned[i] = planned;
    if (planned.row < 0) continue;
    p.row_weight[planned.row] =
        place == sent.peers.place
            ? sent.weights[slot]
            : __uint_as_float(
                  ptx::load_volatile(inbox(sent.peers.ports[place], memory.flags[place]) + slot).z);
    p.outputs[planned.row] = output_place(place, slot);
  }
  if (threadIdx.x != 0) return;
  memory.shared = {-1, 0};
  if (token >= p.input.num_shared) return;
  memory.shared = {p.input.first_shared_row + token,
                   TileCuts(p.input.num_shared, p.input.tile_tokens).tile_of(token)};
  p.row_weight[memory.shared.row] = 1.0F;
  p.outputs[memory.shared.row] = output_place(sent.peers.size, token);
}

/// Of a row of the products. A piece is four words of a scale group's 32.
__device__ void store_product_piece(const FusedDispatchLaunch& p, std::int64_t row, std::int64_t column,
                                    const Piece& piece) {
  const std::int64_t scale_group = column / kActivationGroup;
  const int word = static_cast<int>(column % kActivationGroup) / 4;
  auto* const to =
      reinterpret_cast<std::uint32_t*>(p.rows.codes + row * p.sent.width + scale_group * kActivationGroup);
  const uint4& codes = piece.words[0];
  to[product_word(word)] = codes.x;
  to[product_word(word + 1)] = codes.y;
  to[product_word(word + 2)] = codes.z;
  to[product_word(word + 3)] = codes.w;
  if (word == 0) p.rows.scales[scale_group * p.rows.scale_stride + row] = piece.scale;
}

/// Puts the block's token of the member at `place` where its tiles want it, and counts it there. The work of
/// a group of threads; `first`: its first piece where the token is this rank's.
__device__ void place_row(const FusedDispatchLaunch& p, int place, int token, int group, const Piece& first,
                          const PlanMemory& memory) {
  const DispatchLaunch& sent = p.sent;
  const int thread = static_cast<int>(threadIdx.x) % kRowThreads;
  const bool is_own = place == sent.peers.place;
  const PlannedRow* const planned = memory.planned + place * sent.num_selected;
  const int shared_row = is_own ? memory.shared.row : -1;
  bool wanted = shared_row >= 0;
  for (int i = 0; i < sent.num_selected; ++i) wanted = wanted || planned[i].row >= 0;
  if (!wanted) return;  // the same for all of the group
  std::byte* const staged = is_own ? nullptr
                                   : staging_in(sent.peers.ports[place], memory.flags[place]) +
                                         token * staged_row_bytes(true, sent.width);
  const std::int64_t first_column = thread * kPieceValues;
  const std::int64_t end = is_own ? columns_of_whole_warps(sent.width) : sent.width;
  for (std::int64_t column = first_column; column < end; column += kRowThreads * kPieceValues) {
    const bool inside = column < sent.width;
    Piece piece{};
    if (!is_own) {
      piece = take_piece(sent, place, staged, column, see_piece(sent, staged, column));
    } else {
      piece = column == first_column ? first
                                     : load_piece(sent, token, inside ? column : column % kActivationGroup);
    }
    if (!inside) continue;
    for (int i = 0; i < sent.num_selected; ++i)
      if (planned[i].row >= 0) store_product_piece(p, planned[i].row, column, piece);
    if (shared_row >= 0) store_product_piece(p, shared_row, column, piece);
  }
  ptx::fence_proxy_async_all();
  ptx::named_barrier_sync(1 + group, kRowThreads);
  if (thread < sent.num_selected && planned[thread].row >= 0)
    ptx::flag_add(p.rows_ready + planned[thread].tile, 1);
  if (thread == sent.num_selected && shared_row >= 0) ptx::flag_add(p.rows_ready + memory.shared.tile, 1);
}

/// A block has the same token of every rank. Each block plans for itself, with the experts of all places.
__global__ void __launch_bounds__(kThreads, kFusedBlocksPerSm)
    fused_dispatch_kernel(const __grid_constant__ FusedDispatchLaunch p, NextBehindWait order) {
  extern __shared__ std::uint32_t raw[];
  auto* const experts = reinterpret_cast<std::int16_t*>(raw);
  __shared__ PlanMemory memory;
  const DispatchLaunch& sent = p.sent;
  const int thread = static_cast<int>(threadIdx.x), token = static_cast<int>(blockIdx.x);
  const int group = thread / kRowThreads;
  memory.assignments[thread] = 0;
  // In this order: the products find counters that the kernel before has cleared.
  const NextBehindWait::Waited waited = order.wait();
  if (!sent.peers.shares_gpu) waited.launch_next();
  if (is_peer(sent.peers, thread)) memory.flags[thread] = exchange_flag(sent.peers, thread);
  // The first group sends this rank's row and puts it into its tiles.
  const Piece first = group == 0 ? first_piece(sent, token, thread) : Piece{};
  tell_experts(sent, token, memory.holders, [](int, std::int32_t, float) {});
  __syncthreads();
  if (group == 0 && token < sent.num_tokens)
    send_row(sent, token, memory.holders, first, thread, kRowThreads, [](std::int64_t, const Piece&) {});
  hear_experts(p, experts, memory.assignments);
  const ExpertPlan expert = plan_expert(p.input, memory.assignments, memory.warp_sums);
  memory.first_row[thread] = expert.first_row;
  __syncthreads();
  memory.first_tile[thread] = write_all_tiles(p.input, expert, memory.warp_sums,
                                              blockIdx.x == 0 ? TileLists{.resident = p.tiles} : TileLists{});
  if (blockIdx.x == 0) write_output_arrays(p, memory);
  __syncthreads();
  if (blockIdx.x == 0 && thread == 0) ptx::flag_add(p.plan_ready, 1);
  plan_rows(p, token, experts, memory);
  __syncthreads();
  // This rank's own first: they are there.
  for (int i = group; i < sent.peers.size; i += kRowGroups)
    place_row(p, (sent.peers.place + i) % sent.peers.size, token, group, first, memory);
  end_exchange(sent.peers);
}

}  // namespace

void launch_fused_dispatch(const FusedDispatchLaunch& launch, CudaContext& context) {
  const int blocks = launch.sent.places / launch.sent.num_selected;
  BALEEN_CHECK(launch.sent.sends_fp8);
  BALEEN_CHECK(launch.input.num_experts <= kThreads);
  BALEEN_CHECK(blocks <= kFusedBlocksPerSm * context.num_sms);
  const std::int64_t num_places = std::int64_t{launch.sent.peers.size} * launch.sent.places;
  BALEEN_CHECK(num_places <= kMaxFusedPlaces);
  launch_kernel("dispatching over ranks to tiles", fused_dispatch_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)),
                 .threads = kThreads,
                 .shared_bytes = (num_places + 1) / 2 * std::int64_t{sizeof(std::uint32_t)}},
                context.stream, launch);
}

}  // namespace baleen::sm90
