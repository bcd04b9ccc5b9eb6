// A block a row, a thread an expert; one warp chooses, an expert at a time. With a token or two most of a
// kernel's time goes by while instructions are fetched that have not run since the layer before, so loops
// are short and few.

#include <algorithm>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/device_batch_rows.h"
#include "cuda/kernel_launch.h"
#include "cuda/ordered_float.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/route/cuda/route.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kMaxExperts = 512;
constexpr int kMaxWarps = kMaxExperts / kWarpLanes;
constexpr int kMaxSelected = kWarpLanes;

struct RouteParams {
  const float* logits;
  std::int64_t logits_stride;
  int num_experts;
  int num_selected;
  RouteScoring scoring;
  bool normalise;
  float scale;
  float sum_eps;
  const float* bias;               ///< or null
  const std::int32_t* hash_table;  ///< or null
  std::int64_t hash_stride;
  int num_groups;
  int num_groups_kept;
  std::int32_t* ids;
  std::int64_t ids_stride;
  float* weights;
  std::int64_t weights_stride;
  unsigned long long* load;       ///< or null
  volatile std::int32_t* routed;  ///< or null
  DeviceBatch batch;
};

/// Of the values of all threads; every thread gets it. Ends with a barrier behind the reads.
template <class Combine, class OfWarp>
__device__ float over_block(float value, Combine combine, OfWarp of_warp) {
  __shared__ float of_warps[kMaxWarps];
  value = of_warp(value);
  if (threadIdx.x % kWarpLanes == 0) of_warps[threadIdx.x / kWarpLanes] = value;
  __syncthreads();
  float all = of_warps[0];
#pragma unroll 1
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / kWarpLanes; ++warp)
    all = combine(all, of_warps[warp]);
  __syncthreads();
  return all;
}

/// By the whole block. `exists`: the thread has an expert.
__device__ float score(RouteScoring scoring, float z, bool exists) {
  if (scoring == RouteScoring::kSoftmax) {
    const float largest = over_block(
        exists ? z : -INFINITY, [](float a, float b) { return fmaxf(a, b); },
        [](float x) { return warp_max(x); });
    const float weight = exists ? expf(z - largest) : 0.0F;
    return weight / over_block(
                        weight, [](float a, float b) { return a + b; }, [](float x) { return warp_sum(x); });
  }
  constexpr float kLinearAbove = 20.0F;
  return scoring == RouteScoring::kSigmoid ? 1.0F / (1.0F + expf(-z))
                                           : sqrtf(z > kLinearAbove ? z : log1pf(expf(z)));
}

/// Sum of the two largest keys of a group (of the only one in a group of one).
__device__ float group_key(const std::uint32_t* keys, int size) {
  float first = -INFINITY, second = -INFINITY;
#pragma unroll 1
  for (int i = 0; i < size; ++i) {
    const float key = float_of_order(keys[i]);
    second = fmaxf(second, fminf(first, key));
    first = fmaxf(first, key);
  }
  const float sum = size > 1 ? first + second : first;
  return isnan(sum) ? -INFINITY : sum;
}

/// By the whole block: takes the experts outside the num_groups_kept best groups out of the choice. `keys`
/// [E]; `group_keys`:
/// room for as many.
__device__ void drop_groups(const RouteParams& p, std::uint32_t* keys, float* group_keys) {
  const int thread = static_cast<int>(threadIdx.x), size = p.num_experts / p.num_groups;
  if (thread < p.num_groups) group_keys[thread] = group_key(keys + thread * size, size);
  __syncthreads();
  if (thread < p.num_experts) {
    const int group = thread / size;
    const float mine = group_keys[group];
    int before = 0;
#pragma unroll 1
    for (int other = 0; other < p.num_groups; ++other) {
      const float key = group_keys[other];
      before += key > mine || (other < group && key == mine) ? 1 : 0;
    }
    if (before >= p.num_groups_kept) keys[thread] = kBelowAllFloats;
  }
  __syncthreads();
}

/// By one warp: the `num_selected` experts with the largest keys to `chosen`, falling, equals by rising id.
__device__ void choose(const std::uint32_t* keys, int num_experts, int num_selected, int* chosen) {
  constexpr int kExpertsOfLane = kMaxExperts / kWarpLanes;
  constexpr std::uint32_t kGone = kBelowAllFloats;  // taken, or no expert
  const int lane = static_cast<int>(threadIdx.x);
  std::uint32_t own[kExpertsOfLane];
#pragma unroll
  for (int i = 0; i < kExpertsOfLane; ++i) {
    const int id = lane + i * kWarpLanes;
    own[i] = id < num_experts ? max(keys[id], kGone + 1) : kGone;  // those of dropped groups come last
  }
#pragma unroll 1
  for (int place = 0; place < num_selected; ++place) {
    std::uint32_t best = kGone;
#pragma unroll
    for (const std::uint32_t key : own) best = max(best, key);
    const std::uint32_t best_of_all = __reduce_max_sync(kAllLanes, best);
    unsigned lowest = kMaxExperts;
#pragma unroll
    for (int i = kExpertsOfLane - 1; i >= 0; --i) {
      if (own[i] == best_of_all) lowest = static_cast<unsigned>(lane + i * kWarpLanes);
    }
    const auto id = static_cast<int>(__reduce_min_sync(kAllLanes, lowest));
    if (lane == 0) chosen[place] = id;
#pragma unroll
    for (int i = 0; i < kExpertsOfLane; ++i) {
      if (id == lane + i * kWarpLanes) own[i] = kGone;
    }
  }
}

__global__ void __launch_bounds__(kMaxExperts)
    route_kernel(const __grid_constant__ RouteParams p, NextBehindWait order) {
  __shared__ float scores[kMaxExperts];
  __shared__ float group_keys[kMaxExperts];
  __shared__ std::uint32_t keys[kMaxExperts];
  __shared__ int chosen[kMaxSelected];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = blockIdx.x;
  const bool exists = thread < p.num_experts;
  const float bias = p.bias != nullptr && exists ? p.bias[thread] : 0.0F;
  // Now, and not before: experts may then read x beside this kernel.
  order.wait().launch_next();

  if (p.routed != nullptr && row == 0 && thread == 0) *p.routed = 1;
  const float logit = exists ? p.logits[row * p.logits_stride + thread] : 0.0F;
  std::int32_t* ids = p.ids + row * p.ids_stride;
  float* weights = p.weights + row * p.weights_stride;
  if (p.batch.positions[row] < 0) {
    if (thread < p.num_selected) ids[thread] = -1, weights[thread] = 0.0F;
    return;
  }
  const float own_score = score(p.scoring, logit, exists);
  if (exists) {
    const float key = own_score + bias;
    scores[thread] = own_score;
    keys[thread] = order_of_float(isnan(key) ? -INFINITY : key);
  }
  __syncthreads();
  if (p.hash_table != nullptr) {
    if (thread < p.num_selected) {
      chosen[thread] = p.hash_table[p.batch.tokens[row] * p.hash_stride + thread];
    }
  } else {
    if (p.num_groups_kept < p.num_groups) drop_groups(p, keys, group_keys);
    if (thread < kWarpLanes) choose(keys, p.num_experts, p.num_selected, chosen);
  }
  __syncthreads();
  if (thread >= p.num_selected) return;
  float sum = p.sum_eps;
#pragma unroll 1
  for (int i = 0; i < p.num_selected; ++i) sum += scores[chosen[i]];
  const int id = chosen[thread];
  ids[thread] = id;
  weights[thread] = (p.normalise ? scores[id] / sum : scores[id]) * p.scale;
  if (p.load != nullptr) atomicAdd(p.load + id, 1ULL);
}

}  // namespace

void route(const RouteArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.ids.extent(0), num_experts = args.logits.extent(1);
  BALEEN_CHECK_LE(args.first_row + num_rows, context.batch.num_rows);
  BALEEN_CHECK_EQ(args.logits.extent(0), num_rows);
  BALEEN_CHECK(args.weights.extents() == args.ids.extents());
  BALEEN_CHECK_LE(num_experts, kMaxExperts);
  BALEEN_CHECK_LE(args.ids.extent(1), std::min<std::int64_t>(num_experts, kMaxSelected));
  BALEEN_CHECK(args.load.empty() || static_cast<std::int64_t>(args.load.size()) == num_experts);
  BALEEN_CHECK_EQ(num_experts % args.num_groups, 0);
  if (num_rows == 0) return;
  const bool hashed = !args.hash_table.empty();
  const RouteParams params{
      .logits = args.logits.data(),
      .logits_stride = args.logits.stride(0),
      .num_experts = static_cast<int>(num_experts),
      .num_selected = static_cast<int>(args.ids.extent(1)),
      .scoring = args.scoring,
      .normalise = args.normalise,
      .scale = args.scale,
      .sum_eps = args.sum_eps,
      .bias = args.bias.empty() ? nullptr : args.bias.data(),
      .hash_table = hashed ? args.hash_table.data() : nullptr,
      .hash_stride = hashed ? args.hash_table.stride(0) : 0,
      .num_groups = args.num_groups,
      .num_groups_kept = args.num_groups_kept,
      .ids = args.ids.data(),
      .ids_stride = args.ids.stride(0),
      .weights = args.weights.data(),
      .weights_stride = args.weights.stride(0),
      .load = args.load.empty() ? nullptr : reinterpret_cast<unsigned long long*>(args.load.data()),
      .routed = args.routed,
      .batch = rows_of(context.batch, args.first_row, num_rows)};
  // At least as many threads as there are places to be written.
  const auto threads = static_cast<int>((std::max<std::int64_t>(num_experts, kMaxSelected) + kWarpLanes - 1) /
                                        kWarpLanes * kWarpLanes);
  launch_kernel("route", route_kernel, {.grid = dim3(static_cast<unsigned>(num_rows)), .threads = threads},
                context.stream, params);
}

}  // namespace baleen::BALEEN_ARCH
