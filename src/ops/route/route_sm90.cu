// A warp a row, an expert in 32 to a lane: scores in registers, the k largest one after the other by two reductions of the
// warp in integers. Floats are compared as ordered integers, so that equals are equals and the lower id is found without doubt.

#include <algorithm>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ordered_float.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/route/route.h"

namespace baleen {
namespace {

constexpr int kMaxExperts = 512;
constexpr int kMaxSelected = kWarpLanes;  // a lane each
constexpr int kRowsPerBlock = 4;

struct RouteParams {
  const float* logits;
  std::int64_t logits_stride;
  int num_experts;
  int num_selected;
  RouteScoring scoring;
  bool normalise;
  float scale;
  const float* bias;               ///< or null
  const std::int32_t* hash_table;  ///< or null
  std::int64_t hash_stride;
  int num_groups;
  int num_groups_kept;
  std::int32_t* ids;
  std::int64_t ids_stride;
  float* weights;
  std::int64_t weights_stride;
  unsigned long long* load;  ///< or null
  DeviceBatch batch;
};

/// kSlots values of a lane: experts lane, lane + 32, ...
template <int kSlots>
__device__ void score(const RouteParams& p, float (&scores)[kSlots]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  if (p.scoring == RouteScoring::kSoftmax) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (lane + i * kWarpLanes < p.num_experts) largest = fmaxf(largest, scores[i]);
    }
    largest = warp_max(largest);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      scores[i] = expf(scores[i] - largest);
      if (lane + i * kWarpLanes < p.num_experts) sum += scores[i];
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int i = 0; i < kSlots; ++i) scores[i] /= sum;
    return;
  }
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const float z = scores[i];
    constexpr float kLinearAbove = 20.0F;
    scores[i] = p.scoring == RouteScoring::kSigmoid ? 1.0F / (1.0F + expf(-z))
                                                    : sqrtf(z > kLinearAbove ? z : log1pf(expf(z)));
  }
}

/// Takes the experts outside the num_groups_kept best groups out of the choice. `keys` of the warp: room for E floats.
template <int kSlots>
__device__ void drop_groups(const RouteParams& p, float* keys, std::uint32_t (&order)[kSlots]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int size = p.num_experts / p.num_groups;
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    if (lane + i * kWarpLanes < p.num_experts) keys[lane + i * kWarpLanes] = float_of_order(order[i]);
  }
  __syncwarp();
  // Sum of the two largest keys of a group (of the only one in a group of one).
  const auto group_key = [&](int group) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = group * size; e < (group + 1) * size; ++e) {
      second = fmaxf(second, fminf(first, keys[e]));
      first = fmaxf(first, keys[e]);
    }
    const float sum = size > 1 ? first + second : first;
    return isnan(sum) ? -INFINITY : sum;
  };
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const int expert = lane + i * kWarpLanes;
    if (expert >= p.num_experts) continue;
    const int group = expert / size;
    const float mine = group_key(group);
    int before = 0;
    for (int other = 0; other < p.num_groups; ++other) {
      const float key = group_key(other);
      before += key > mine || (other < group && key == mine) ? 1 : 0;
    }
    if (before >= p.num_groups_kept) order[i] = kBelowAllFloats;
  }
}

/// The expert of the largest key, the lower id of equals, to all lanes; it is taken out.
template <int kSlots>
__device__ int take_best(std::uint32_t (&order)[kSlots]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  std::uint32_t best = order[0];
  int slot = 0;
#pragma unroll
  for (int i = 1; i < kSlots; ++i) {
    if (order[i] > best) best = order[i], slot = i;
  }
  const std::uint32_t largest = __reduce_max_sync(kAllLanes, best);
  const unsigned mine = best == largest ? static_cast<unsigned>(lane + slot * kWarpLanes) : kMaxExperts;
  const auto id = static_cast<int>(__reduce_min_sync(kAllLanes, mine));
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    if (lane + i * kWarpLanes == id) order[i] = kBelowAllFloats;
  }
  return id;
}

template <int kSlots>
__global__ void __launch_bounds__(kRowsPerBlock* kWarpLanes)
    route_kernel(const __grid_constant__ RouteParams p) {
  __shared__ float row_values[kRowsPerBlock][kSlots * kWarpLanes];
  ptx::launch_next_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int row = static_cast<int>(blockIdx.x) * kRowsPerBlock + warp;
  float bias[kSlots];
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const int expert = lane + i * kWarpLanes;
    bias[i] = p.bias != nullptr && expert < p.num_experts ? p.bias[expert] : 0.0F;
  }
  ptx::wait_for_previous_kernel();
  if (row >= p.batch.num_rows) return;

  const int position = p.batch.positions[row];
  float scores[kSlots];
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const int expert = lane + i * kWarpLanes;
    scores[i] = expert < p.num_experts ? p.logits[row * p.logits_stride + expert] : 0.0F;
  }
  std::int32_t* ids = p.ids + row * p.ids_stride;
  float* weights = p.weights + row * p.weights_stride;
  if (position < 0) {
    if (lane < p.num_selected) ids[lane] = -1, weights[lane] = 0.0F;
    return;
  }
  score(p, scores);

  int id = 0;  // of this lane's choice
  if (p.hash_table != nullptr) {
    if (lane < p.num_selected) id = p.hash_table[p.batch.tokens[row] * p.hash_stride + lane];
  } else {
    std::uint32_t order[kSlots];
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const float key = p.bias != nullptr ? scores[i] + bias[i] : scores[i];
      order[i] = lane + i * kWarpLanes < p.num_experts ? order_of_float(isnan(key) ? -INFINITY : key)
                                                       : kBelowAllFloats;
    }
    if (p.num_groups_kept < p.num_groups) drop_groups(p, row_values[warp], order);
    for (int choice = 0; choice < p.num_selected; ++choice) {
      const int best = take_best(order);
      if (lane == choice) id = best;
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kSlots; ++i) row_values[warp][lane + i * kWarpLanes] = scores[i];
  __syncwarp();
  const float chosen = row_values[warp][id];
  float sum = 0.0F;
  for (int choice = 0; choice < p.num_selected; ++choice) sum += __shfl_sync(kAllLanes, chosen, choice);
  if (lane >= p.num_selected) return;
  ids[lane] = id;
  weights[lane] = (p.normalise ? chosen / sum : chosen) * p.scale;
  if (p.load != nullptr) atomicAdd(p.load + id, 1ULL);
}

}  // namespace

void route_sm90(const RouteArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.ids.extent(0), num_experts = args.logits.extent(1);
  BALEEN_CHECK_EQ(num_rows, context.batch.num_rows);
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
      .batch = context.batch};
  const auto launch = [&](auto kernel) {
    launch_kernel("route", kernel,
                  {.grid = dim3(static_cast<unsigned>((num_rows + kRowsPerBlock - 1) / kRowsPerBlock)),
                   .threads = kRowsPerBlock * kWarpLanes},
                  context.stream, params);
  };
  num_experts <= kMaxExperts / 2 ? launch(route_kernel<kMaxExperts / 2 / kWarpLanes>)
                                 : launch(route_kernel<kMaxExperts / kWarpLanes>);
}

}  // namespace baleen
