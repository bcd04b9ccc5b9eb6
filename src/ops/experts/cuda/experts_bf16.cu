#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/expert_weights.h"
#include "ops/experts/cuda/experts_bf16.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kWarps = 8;
constexpr int kOutputsPerWarp = 4;
constexpr int kOutputsPerBlock = kWarps * kOutputsPerWarp;
constexpr int kVector = 8;  // BF16 values of a 16-byte load

struct Bf16Matrix {
  const std::byte* data;
  std::int64_t distance;  ///< bytes from place to place
};

struct Bf16Params {
  const std::int32_t* ids;
  std::int32_t first_expert;
  const std::int32_t* row_of_slot;
  const float* row_weight;
  Bf16Matrix routed[3];  ///< w1, w3, w2
  const std::int32_t* places;
  Bf16Matrix shared[3];
  const Bf16Bits* x;
  Bf16Bits* inner;
  AssignmentOutputs y;
  std::int32_t num_slots;
  std::int32_t first_shared_row;
  std::int32_t num_selected;
  std::int32_t width;
  std::int32_t inner_width;  ///< width of routed experts
  std::int32_t shared_inner_width;
  float swiglu_limit;

  /// Of expert `expert`, -1: shared.
  [[nodiscard]] __device__ int inner_width_of(int expert) const {
    return expert < 0 ? shared_inner_width : inner_width;
  }
  [[nodiscard]] __host__ __device__ int inner_pitch() const {
    return inner_width > shared_inner_width ? inner_width : shared_inner_width;
  }
};

struct Assignment {
  int expert;  ///< -1: shared
  std::int64_t token;
  std::int64_t row;
};

/// Slots first, then one assignment a token to the shared expert. False: the index is of no assignment.
__device__ bool find_assignment(const Bf16Params& p, int index, Assignment& assignment) {
  if (index >= p.num_slots) {
    assignment = {-1, index - p.num_slots, p.first_shared_row + index - p.num_slots};
    return true;
  }
  assignment = {p.ids[index] - p.first_expert, index / p.num_selected, p.row_of_slot[index]};
  return assignment.row >= 0;
}

__device__ const Bf16Bits* weight_row(const Bf16Params& p, int which, int expert, std::int64_t row,
                                      int cols) {
  const Bf16Matrix& matrix = expert < 0 ? p.shared[which] : p.routed[which];
  return reinterpret_cast<const Bf16Bits*>(
             matrix.data + (expert < 0 ? 0 : expert_place(p.places, expert) * matrix.distance)) +
         row * cols;
}

/// Float32; every lane of the warp gets it.
__device__ float dot(const Bf16Bits* a, const Bf16Bits* b, int count) {
  float sum = 0.0F;
  for (int i = kVector * (threadIdx.x % kWarpLanes); i < count; i += kVector * kWarpLanes) {
    float left[kVector], right[kVector];
    unpack_bf16(*reinterpret_cast<const uint4*>(a + i), left);
    unpack_bf16(*reinterpret_cast<const uint4*>(b + i), right);
#pragma unroll
    for (int j = 0; j < kVector; ++j) sum = fmaf(left[j], right[j], sum);
  }
  return warp_sum(sum);
}

__device__ float rounded_dot(const Bf16Bits* a, const Bf16Bits* b, int count) {
  return rounded_to_bf16(dot(a, b, count));
}

/// Block (v, n): outputs [32 n, 32 n + 32) of assignment v.
__global__ void __launch_bounds__(kWarps* kWarpLanes) inner_kernel(const Bf16Params p, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  Assignment assignment;
  if (!find_assignment(p, blockIdx.x, assignment)) return;
  const float routing_weight = p.row_weight[assignment.row];
  const Bf16Bits* x = p.x + assignment.token * p.width;
  for (int i = 0; i < kOutputsPerWarp; ++i) {
    const int n = blockIdx.y * kOutputsPerBlock + threadIdx.x / kWarpLanes * kOutputsPerWarp + i;
    if (n >= p.inner_width_of(assignment.expert)) return;
    float gate = rounded_dot(x, weight_row(p, 0, assignment.expert, n, p.width), p.width);
    float up = rounded_dot(x, weight_row(p, 1, assignment.expert, n, p.width), p.width);
    const float limit = p.swiglu_limit;
    if (limit > 0.0F) {  // comparisons that let NaN pass
      gate = gate > limit ? limit : gate;
      up = up > limit ? limit : up < -limit ? -limit : up;
    }
    const float activated = routing_weight * (gate / (1.0F + expf(-gate)) * up);
    if (threadIdx.x % kWarpLanes == 0) p.inner[assignment.row * p.inner_pitch() + n] = bf16_bits(activated);
  }
}

__global__ void __launch_bounds__(kWarps* kWarpLanes) down_kernel(const Bf16Params p, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  Assignment assignment;
  if (!find_assignment(p, blockIdx.x, assignment)) return;
  const int inner_width = p.inner_width_of(assignment.expert);
  const ExpertOutputs& to = assignment.expert < 0 ? p.y.shared : p.y.routed;
  for (int i = 0; i < kOutputsPerWarp; ++i) {
    const int n = blockIdx.y * kOutputsPerBlock + threadIdx.x / kWarpLanes * kOutputsPerWarp + i;
    const float y = dot(p.inner + assignment.row * p.inner_pitch(),
                        weight_row(p, 2, assignment.expert, n, inner_width), inner_width);
    if (threadIdx.x % kWarpLanes != 0) continue;
    const std::int64_t at = assignment.row * p.width + n;
    if (to.partial != nullptr) {
      to.partial[at] = to.rounds ? rounded_to_bf16(y) : y;
    } else {
      to.rounded[at] = bf16_bits(y);
    }
  }
}

}  // namespace

void bf16_expert_products(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                          Bf16Bits* inner, const AssignmentOutputs& y, CudaContext& context) {
  const ExpertWeights& first = args.routed[0];
  const auto routed = [&](WeightMatrix ExpertWeights::*which) {
    return Bf16Matrix{(first.*which).data, expert_distance(args.routed, which)};
  };
  const auto shared = [&](WeightMatrix ExpertWeights::*which) {
    return Bf16Matrix{args.shared != nullptr ? (args.shared->*which).data : nullptr, 0};
  };
  using E = ExpertWeights;
  const Bf16Params params{.ids = args.ids.data(),
                          .first_expert = static_cast<std::int32_t>(args.first_expert),
                          .row_of_slot = plan.row_of_slot,
                          .row_weight = plan.row_weight,
                          .routed = {routed(&E::w1), routed(&E::w3), routed(&E::w2)},
                          .places = args.places.of_expert,
                          .shared = {shared(&E::w1), shared(&E::w3), shared(&E::w2)},
                          .x = args.x.bf16().data(),
                          .inner = inner,
                          .y = y,
                          .num_slots = static_cast<std::int32_t>(extents.num_slots()),
                          .first_shared_row = static_cast<std::int32_t>(extents.first_shared_row()),
                          .num_selected = static_cast<std::int32_t>(extents.num_selected),
                          .width = static_cast<std::int32_t>(first.w1.cols),
                          .inner_width = static_cast<std::int32_t>(first.w1.rows),
                          .shared_inner_width = static_cast<std::int32_t>(
                              args.shared != nullptr ? args.shared->w1.rows : first.w1.rows),
                          .swiglu_limit = args.swiglu_limit};
  const std::int64_t assignments = extents.num_slots() + extents.num_shared;
  const auto launch = [&](void (*kernel)(Bf16Params, NextAtOnce), std::int64_t outputs) {
    launch_kernel(
        "multiplying BF16 experts", kernel,
        {.grid = dim3(static_cast<unsigned>(assignments), static_cast<unsigned>(outputs / kOutputsPerBlock)),
         .threads = kWarps * kWarpLanes},
        context.stream, params);
  };
  launch(inner_kernel, params.inner_pitch());
  launch(down_kernel, params.width);
}

}  // namespace baleen::BALEEN_ARCH
