/// What the kernels for few tokens with scales per 32 are given, and what their blocks find out of the
/// tokens' experts, each for itself.
#pragma once

#include <cstdint>

#include "cuda/ptx/named_barrier.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/sm90/groups_few.h"
#include "ops/experts/sm90/groups_few_rows.cuh"

namespace baleen::sm90::groups_few {

inline constexpr int kMaxSlots = static_cast<int>(kMaxFewGroupSlots);
inline constexpr int kMaxTogether =
    kMaxColumns / 2;  ///< slots of a part: the second kernel has two parts at once

struct FewParams {
  Matrix routed[3], shared[3];  ///< w1, w3, w2
  const std::int32_t* places;   ///< null: expert e is at place e
  /// Places before any expert is fetched: those that differ are of experts that come; null: none does.
  const std::int32_t* places_before;
  const std::int32_t* ids;
  const float* weights;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  bool x_is_settled;     ///< x is there before the first kernel's wait
  bool ids_are_settled;  ///< so are ids and weights, where the kernel before it is one that fetches experts
  Bf16Bits* inner;       ///< [slots + tokens, inner_pitch]: a of every slot, then of the shared expert
  Bf16Bits* out;         ///< null: the sums go to `sums`
  float* sums;           ///< partial, in float32
  std::int32_t width, inner_width, shared_inner_width, inner_pitch;
  std::int32_t num_tokens, num_selected;
  std::int32_t first_expert, num_experts;  ///< this rank has
  bool has_shared;
  bool rounds_routed, rounds_shared;  ///< y, before it is added
  float swiglu_limit;

  [[nodiscard]] __host__ __device__ int num_slots() const { return num_tokens * num_selected; }
};

/// What blocks know of the tokens' experts. A *column* is a slot whose expert is of this rank; columns are
/// sorted by expert, then slot, and a *part* is up to kMaxTogether neighbours with the same expert.
struct alignas(128) FewPlan {
  int num_columns, num_parts;
  bool waits;                              ///< some place is not known before experts have come
  std::int32_t expert_of_slot[kMaxSlots];  ///< -1: none that this rank has
  // What columns have; `number` counts slots that an expert has.
  std::int32_t number[kMaxSlots], slot[kMaxSlots], place[kMaxSlots];
  float weight[kMaxSlots];
  std::int32_t first_column[kMaxSlots + 1];  ///< each part's; behind the last one's, num_columns
};

/// By all threads of a block, which meet from both sides of a branch.
__device__ inline void block_barrier() {
  constexpr std::uint32_t kBlockBarrier = 1;
  ptx::named_barrier_sync(kBlockBarrier, blockDim.x);
}

/// By all threads; ends with a barrier. What earlier kernels wrote is read past the first-level cache.
/// `ahead`: kernels that fetch experts may still run.
__device__ inline void make_plan(const FewParams& p, bool ahead, FewPlan& plan) {
  const int thread = static_cast<int>(threadIdx.x), num_slots = p.num_slots();
  int expert = -1, place = 0;
  float weight = 0.0F;
  if (thread < num_slots) {
    const std::int32_t id = __ldcg(p.ids + thread);
    if (id >= p.first_expert && id - p.first_expert < p.num_experts) expert = id - p.first_expert;
    plan.expert_of_slot[thread] = expert;
    weight = __ldcg(p.weights + thread);
    if (expert >= 0) place = p.places == nullptr ? expert : __ldcg(p.places + expert);
  }
  if (ahead && thread == 0) plan.waits = false;
  block_barrier();
  if (ahead && expert >= 0 && place != __ldcg(p.places_before + expert)) plan.waits = true;
  if (thread < num_slots) {
    int column = 0, before = 0, all = 0;
    for (int slot = 0; slot < num_slots; ++slot) {
      const int other = plan.expert_of_slot[slot];
      const bool same_before = other == expert && slot < thread;
      column += (other >= 0 && other < expert) || same_before ? 1 : 0;
      before += same_before ? 1 : 0;
      all += other >= 0 ? 1 : 0;
    }
    if (expert >= 0) {
      plan.slot[column] = thread;
      plan.number[column] = before;
      plan.place[column] = place;
      plan.weight[column] = weight;
    }
    if (thread == 0) {
      plan.num_columns = all;
      plan.num_parts = 0;
      plan.first_column[0] = 0;
    }
  }
  block_barrier();
  if (thread < plan.num_columns) {
    int begun = 0;  // parts up to this column
    for (int column = 0; column <= thread; ++column) begun += plan.number[column] % kMaxTogether == 0 ? 1 : 0;
    if (plan.number[thread] % kMaxTogether == 0) plan.first_column[begun - 1] = thread;
    if (thread == plan.num_columns - 1) {
      plan.num_parts = begun;
      plan.first_column[begun] = plan.num_columns;
    }
  }
  block_barrier();
}

}  // namespace baleen::sm90::groups_few
