/// The kernel of dispatch_experts. Architectures give the form in which their products want rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/dequantised_values.cuh"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_plan.cuh"
#include "ops/experts/cuda/expert_rows.h"

namespace baleen::BALEEN_ARCH {

namespace dispatch_kernels {

inline constexpr int kThreads = kPlanThreads;
inline constexpr int kWarps = kThreads / kWarpLanes;
inline constexpr int kBlocksPerSm = 2;    // each counts all ids anew
inline constexpr int kLoadsInFlight = 4;  // scale groups that a warp has under way

inline constexpr int kMaxFewTokens = 8;
inline constexpr int kFewThreads = 256;
inline constexpr int kFewWarps = kFewThreads / kWarpLanes;
static_assert(kMaxFewSlots < kFewThreads && kMaxFewTokens <= kFewThreads);

template <class Rows>
struct DispatchParams {
  PlanInput input;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  const float* weights;
  std::int64_t width;
  bool x_is_settled;              ///< before the kernel's wait; few tokens
  std::int32_t tokens_per_block;  ///< many tokens
  DispatchPlan plan;
  Rows rows;
};

struct QuantisedWord {
  std::uint32_t codes;
  float scale;
};

/// Rows of codes with a scale for kValues each. `WordOrder`()(source) says where the word of four codes at
/// word `source` of a slice of 128 goes.
template <class WordOrder, int kValues>
struct CodeRows {
  static constexpr int kGroup = kValues;
  Fp8Rows rows;

  [[nodiscard]] __host__ __device__ bool are_wanted() const { return rows.codes != nullptr; }
  /// What `store` takes of a lane's word.
  [[nodiscard]] __device__ QuantisedWord form(const QuantisedWord& word) const { return word; }
  /// Slice `slice` of row `row`, by all lanes of a warp.
  __device__ void store(const QuantisedWord& word, std::int64_t row, std::int64_t width, int slice) const {
    const int lane = threadIdx.x % kWarpLanes;
    reinterpret_cast<std::uint32_t*>(rows.codes + row * width)[slice * kWarpLanes + WordOrder()(lane)] =
        word.codes;
    if (lane % (kGroup / 4) == 0) {
      const int group = slice * (kActivationGroup / kGroup) + lane / (kGroup / 4);
      rows.scales[group * rows.scale_stride + row] = word.scale;
    }
  }
};

/// Rows of BF16 values, which have the scales of 32 in them (wide_word).
struct WideRows {
  static constexpr int kGroup = kSmallActivationGroup;
  Bf16Bits* rows;

  [[nodiscard]] __host__ __device__ bool are_wanted() const { return true; }
  /// Two neighbouring words of the slice that a lane stores.
  [[nodiscard]] __device__ uint2 form(const QuantisedWord& word) const {
    // Lane 2 n has inputs 0 to 3 of eight, lane 2 n + 1 the others.
    const int lane = threadIdx.x % kWarpLanes;
    const std::uint32_t multiplier = dequantised::token_multiplier(word.codes, word.codes, word.scale);
    const std::uint32_t own[2] = {dequantise_e4m3_pair(word.codes, multiplier),
                                  dequantise_e4m3_pair(word.codes >> 16, multiplier)};
    const bool second = lane % 2 != 0;
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, second ? own[0] : own[1], 1);
    const std::uint32_t low = second ? other : own[0], high = second ? own[1] : other;
    const std::uint32_t even = ptx::byte_permute<0x5410>(low, high),
                        odd = ptx::byte_permute<0x7632>(low, high);
    // Neighbours of these words are those of the next 32 inputs, eight lanes on.
    const bool upper = lane / 8 % 2 != 0;
    const std::uint32_t neighbour = __shfl_xor_sync(kAllLanes, upper ? even : odd, 8);
    return upper ? uint2{neighbour, odd} : uint2{even, neighbour};
  }
  __device__ void store(const uint2& words, std::int64_t row, std::int64_t width, int slice) const {
    const int lane = threadIdx.x % kWarpLanes, q = lane / 8;
    const int word = wide_word(q / 2 * 2, lane % 8 / 2, lane % 2 * 2 + q % 2);
    reinterpret_cast<uint2*>(rows + row * width + slice * kActivationGroup)[word / 2] = words;
  }
};

/// This lane's four values of the 128 from 128 `slice` on of token `token`, which have a scale for kGroup
/// each; of `x`, `x_fp8` and `width` of `p`. Past the first-level cache: perhaps before the wait.
template <int kGroup = kActivationGroup, class Params>
__device__ QuantisedWord load_word(const Params& p, std::int64_t token, int slice) {
  const int lane = threadIdx.x % kWarpLanes;
  const std::int64_t column = static_cast<std::int64_t>(slice) * kActivationGroup + 4 * lane;
  if (p.x_fp8.codes != nullptr) {
    return {__ldcg(reinterpret_cast<const std::uint32_t*>(p.x_fp8.codes + token * p.width + column)),
            __ldcg(p.x_fp8.scales + column / kGroup * p.x_fp8.scale_stride + token)};
  }
  const uint2 words = __ldcg(reinterpret_cast<const uint2*>(p.x + token * p.width + column));
  float values[4];
  unpack_bf16(words, values);
  const Fp8Piece<4> piece = quantise_fp8_group<4, kGroup>(values);
  return {piece.codes[0], piece.scale};
}

/// The whole plan in every block, of which the first one writes it; a warp has a slice of a token's row. With
/// a token or two a kernel's time is what follows one another, and instructions that come anew in each layer:
/// so nothing stands behind the ids but the plan, which is short.
template <class Rows>
__global__ void __launch_bounds__(kFewThreads)
    few_dispatch_kernel(const DispatchParams<Rows> p, NextBehindWait order) {
  __shared__ FewSlots slots;
  const PlanInput& input = p.input;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpLanes;
  const int token = static_cast<int>(blockIdx.y), num_slots = input.num_tokens * input.num_selected;
  const int slice = static_cast<int>(blockIdx.x) * kFewWarps + warp;
  const bool has_slice = p.rows.are_wanted() && slice < static_cast<int>(p.width / kActivationGroup);
  const bool writes_plan = blockIdx.x == 0 && blockIdx.y == 0;

  if (!p.x_is_settled) (void)order.wait();
  decltype(p.rows.form({})) formed{};
  if (has_slice) formed = p.rows.form(load_word<Rows::kGroup>(p, token, slice));
  order.wait().launch_next();

  int expert = -1;
  float weight = 0.0F;
  if (thread < num_slots) {
    expert = input.local_expert(__ldcg(input.ids + thread));
    weight = __ldcg(p.weights + thread);
  }
  for (std::int64_t i = (blockIdx.y * gridDim.x + blockIdx.x) * kFewThreads + thread; i < p.plan.num_counters;
       i += static_cast<std::int64_t>(gridDim.x * gridDim.y) * kFewThreads) {
    p.plan.counters[i] = 0;
  }
  plan_few_slots(input, expert, slots, writes_plan, p.plan.lists);
  if (has_slice) {
#pragma unroll 1
    for (int slot = 0; slot < input.num_selected; ++slot) {
      const int row = slots.row[token * input.num_selected + slot];
      if (row >= 0) p.rows.store(formed, row, p.width, slice);
    }
    if (input.num_shared > 0) p.rows.store(formed, input.first_shared_row + token, p.width, slice);
  }
  if (!writes_plan) return;
  if (thread < num_slots) {
    const int row = slots.row[thread];
    p.plan.row_of_slot[thread] = row;
    if (row >= 0) p.plan.row_weight[row] = weight;
  }
  if (thread < input.num_shared) p.plan.row_weight[input.first_shared_row + thread] = 1.0F;
}

/// A block plans for its own tokens: it counts all assignments, and those of tokens before its own.
template <class Rows>
__global__ void __launch_bounds__(kThreads)
    dispatch_kernel(const DispatchParams<Rows> p, NextBehindWait order) {
  extern __shared__ int shared[];
  __shared__ int warp_sums[kWarps];
  const int num_experts = p.input.num_experts, num_selected = p.input.num_selected;
  int* const assignments = shared;  // [E]
  // [E]: assignments of earlier blocks' tokens; then the first row of this block's.
  int* const next_row = assignments + num_experts;
  int* const own_ids = next_row + num_experts;
  int* const own_rows = own_ids + p.tokens_per_block * num_selected;
  const int thread = threadIdx.x, warp = thread / kWarpLanes;
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
  if (!p.rows.are_wanted()) return;

  const int slices = static_cast<int>(p.width / kActivationGroup);
  for (int item = warp * kLoadsInFlight; item < num_tokens * slices; item += kWarps * kLoadsInFlight) {
    QuantisedWord words[kLoadsInFlight];
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int one = min(item + i, num_tokens * slices - 1);
      words[i] = load_word<Rows::kGroup>(p, first_token + one / slices, one % slices);
    }
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int token = (item + i) / slices, slice = (item + i) % slices;
      if (token >= num_tokens) break;
      const auto formed = p.rows.form(words[i]);
      for (int slot = 0; slot < num_selected; ++slot) {
        const int row = own_rows[token * num_selected + slot];
        if (row >= 0) p.rows.store(formed, row, p.width, slice);
      }
      if (p.input.num_shared > 0)
        p.rows.store(formed, p.input.first_shared_row + first_token + token, p.width, slice);
    }
  }
}

}  // namespace dispatch_kernels

/// `dispatch_experts`, with rows of a form that is here.
template <class Rows>
void dispatch_experts_as(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                         const Rows& rows, CudaContext& context) {
  using namespace dispatch_kernels;
  BALEEN_CHECK(extents.num_experts <= kThreads);
  BALEEN_CHECK(!args.x_fp8 || args.x_fp8.group == Rows::kGroup);
  const auto num_tokens = static_cast<int>(extents.num_tokens);
  const int tokens_per_block =
      (num_tokens + kBlocksPerSm * context.num_sms - 1) / (kBlocksPerSm * context.num_sms);
  const bool few = num_tokens <= kMaxFewTokens && extents.num_slots() <= kMaxFewSlots;
  const DispatchParams<Rows> params{
      .input = PlanInput(args, extents),
      .x = args.x.bf16().data(),
      .x_fp8 = args.x_fp8,
      .weights = args.weights.data(),
      .width = args.x.extent(1),
      .x_is_settled = few && context.stream.is_settled(Accesses().read(args.x).read(
                                 args.x_fp8, args.x.extent(0), args.x.extent(1))),
      .tokens_per_block = tokens_per_block,
      .plan = plan,
      .rows = rows};
  if (few) {
    const auto slices = static_cast<unsigned>(args.x.extent(1) / kActivationGroup);
    launch_kernel("dispatching few tokens to experts", few_dispatch_kernel<Rows>,
                  {.grid = rows.are_wanted()
                               ? dim3((slices + kFewWarps - 1) / kFewWarps, static_cast<unsigned>(num_tokens))
                               : dim3(1),
                   .threads = kFewThreads},
                  context.stream, params);
    return;
  }
  const std::int64_t shared_ints =
      2 * extents.num_experts + 2 * static_cast<std::int64_t>(tokens_per_block) * extents.num_selected;
  launch_kernel("dispatching to experts", dispatch_kernel<Rows>,
                {.grid = dim3(static_cast<unsigned>((num_tokens + tokens_per_block - 1) / tokens_per_block)),
                 .threads = kThreads,
                 .shared_bytes = shared_ints * static_cast<std::int64_t>(sizeof(int))},
                context.stream, params);
}

/// As codes in the order `WordOrder` with a scale for kGroup of them.
template <class WordOrder, int kGroup = kActivationGroup>
void dispatch_experts_in(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                         const Fp8Rows& rows, CudaContext& context) {
  BALEEN_CHECK(!rows || rows.group == kGroup);
  dispatch_experts_as(args, extents, plan, dispatch_kernels::CodeRows<WordOrder, kGroup>{rows}, context);
}

}  // namespace baleen::BALEEN_ARCH
