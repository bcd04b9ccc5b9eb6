/// The kernel of dispatch_experts. Architectures give the order in which their products want words of codes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_plan.cuh"

namespace baleen::BALEEN_ARCH {

namespace dispatch_kernels {

inline constexpr int kThreads = kPlanThreads;
inline constexpr int kWarps = kThreads / kWarpLanes;
inline constexpr int kBlocksPerSm = 2;    // each counts all ids anew
inline constexpr int kLoadsInFlight = 4;  // scale groups that a warp has under way

struct DispatchParams {
  PlanInput input;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  const float* weights;
  std::int64_t width;
  std::int32_t tokens_per_block;
  DispatchPlan plan;
  Fp8Rows rows;
};

struct QuantisedWord {
  std::uint32_t codes;
  float scale;
};

/// This lane's four values of the 128 from 128 `slice` on of token `token`, which have a scale for kGroup
/// each; of `x`, `x_fp8` and `width` of `p`.
template <int kGroup = kActivationGroup, class Params>
__device__ QuantisedWord load_word(const Params& p, std::int64_t token, int slice) {
  const int lane = threadIdx.x % kWarpLanes;
  const std::int64_t column = static_cast<std::int64_t>(slice) * kActivationGroup + 4 * lane;
  if (p.x_fp8.codes != nullptr) {
    return {*reinterpret_cast<const std::uint32_t*>(p.x_fp8.codes + token * p.width + column),
            p.x_fp8.scales[column / kGroup * p.x_fp8.scale_stride + token]};
  }
  const uint2 words = *reinterpret_cast<const uint2*>(p.x + token * p.width + column);
  float values[4];
  unpack_bf16(words, values);
  const Fp8Piece<4> piece = quantise_fp8_group<4, kGroup>(values);
  return {piece.codes[0], piece.scale};
}

/// A block plans for its own tokens: it counts all assignments, and those of tokens before its own.
template <class WordOrder, int kGroup>
__global__ void __launch_bounds__(kThreads) dispatch_kernel(const DispatchParams p, NextBehindWait order) {
  extern __shared__ int shared[];
  __shared__ int warp_sums[kWarps];
  const int num_experts = p.input.num_experts, num_selected = p.input.num_selected;
  int* const assignments = shared;  // [E]
  // [E]: assignments of earlier blocks' tokens; then the first row of this block's.
  int* const next_row = assignments + num_experts;
  int* const own_ids = next_row + num_experts;
  int* const own_rows = own_ids + p.tokens_per_block * num_selected;
  const int thread = threadIdx.x, warp = thread / kWarpLanes, lane = thread % kWarpLanes;
  const int first_token = blockIdx.x * p.tokens_per_block;
  const int num_tokens = min(p.tokens_per_block, p.input.num_tokens - first_token);
  const int first_slot = first_token * num_selected;
  const int num_own = num_tokens * num_selected;
  for (int expert = thread; expert < num_experts; expert += kThreads) {
    assignments[expert] = 0;
    next_row[expert] = 0;
  }
  __syncthreads();
  order.wait().launch_next();

  for (int i = thread; i < num_own; i += kThreads)
    own_ids[i] = p.input.local_expert(p.input.ids[first_slot + i]);
  for_each_assignment(p.input, [&](int slot, int id) {
    atomicAdd(&assignments[id], 1);
    if (slot < first_slot) atomicAdd(&next_row[id], 1);
  });
  const ExpertPlan expert = plan_expert(p.input, assignments, warp_sums);
  if (thread < num_experts) next_row[thread] += expert.first_row;
  __syncthreads();
  if (blockIdx.x == 0) (void)write_all_tiles(p.input, expert, warp_sums, p.plan.lists);
  for (std::int64_t i = blockIdx.x * kThreads + thread; i < p.plan.num_counters;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    p.plan.counters[i] = 0;
  }
  for (int i = thread; i < num_own; i += kThreads) {
    const int id = own_ids[i];
    int row = -1;
    if (id >= 0) {
      row = next_row[id];
      for (int earlier = 0; earlier < i; ++earlier) row += own_ids[earlier] == id ? 1 : 0;
      p.plan.row_weight[row] = p.weights[first_slot + i];
    }
    own_rows[i] = row;
    p.plan.row_of_slot[first_slot + i] = row;
  }
  if (p.input.num_shared > 0) {
    for (int i = thread; i < num_tokens; i += kThreads)
      p.plan.row_weight[p.input.first_shared_row + first_token + i] = 1.0F;
  }
  __syncthreads();
  if (p.rows.codes == nullptr) return;

  const int slices = static_cast<int>(p.width / kActivationGroup);
  const int to_word = WordOrder()(lane);
  const auto store = [&](const QuantisedWord& word, std::int64_t row, int slice) {
    reinterpret_cast<std::uint32_t*>(p.rows.codes + row * p.width)[slice * kWarpLanes + to_word] = word.codes;
    if (lane % (kGroup / 4) == 0) {
      const int group = slice * (kActivationGroup / kGroup) + lane / (kGroup / 4);
      p.rows.scales[group * p.rows.scale_stride + row] = word.scale;
    }
  };
  for (int item = warp * kLoadsInFlight; item < num_tokens * slices; item += kWarps * kLoadsInFlight) {
    QuantisedWord words[kLoadsInFlight];
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int one = min(item + i, num_tokens * slices - 1);
      words[i] = load_word<kGroup>(p, first_token + one / slices, one % slices);
    }
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int token = (item + i) / slices, slice = (item + i) % slices;
      if (token >= num_tokens) break;
      for (int slot = 0; slot < num_selected; ++slot) {
        const int row = own_rows[token * num_selected + slot];
        if (row >= 0) store(words[i], row, slice);
      }
      if (p.input.num_shared > 0) store(words[i], p.input.first_shared_row + first_token + token, slice);
    }
  }
}

}  // namespace dispatch_kernels

/// `dispatch_experts`. `WordOrder`()(source) says where the word of four codes at word `source` of 128 goes
/// when rows are laid out for the products; a scale is of kGroup of them.
template <class WordOrder, int kGroup = kActivationGroup>
void dispatch_experts_in(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                         const Fp8Rows& rows, CudaContext& context) {
  using namespace dispatch_kernels;
  BALEEN_CHECK(extents.num_experts <= kThreads);
  BALEEN_CHECK((!rows || rows.group == kGroup) && (!args.x_fp8 || args.x_fp8.group == kGroup));
  const auto num_tokens = static_cast<int>(extents.num_tokens);
  const int tokens_per_block =
      (num_tokens + kBlocksPerSm * context.num_sms - 1) / (kBlocksPerSm * context.num_sms);
  const DispatchParams params{.input = PlanInput(args, extents),
                              .x = args.x.bf16().data(),
                              .x_fp8 = args.x_fp8,
                              .weights = args.weights.data(),
                              .width = args.x.extent(1),
                              .tokens_per_block = tokens_per_block,
                              .plan = plan,
                              .rows = rows};
  const std::int64_t shared_ints =
      2 * extents.num_experts + 2 * static_cast<std::int64_t>(tokens_per_block) * extents.num_selected;
  launch_kernel("dispatching to experts", dispatch_kernel<WordOrder, kGroup>,
                {.grid = dim3(static_cast<unsigned>((num_tokens + tokens_per_block - 1) / tokens_per_block)),
                 .threads = kThreads,
                 .shared_bytes = shared_ints * static_cast<std::int64_t>(sizeof(int))},
                context.stream, params);
}

}  // namespace baleen::BALEEN_ARCH
