#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/system_memory.h"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_request.h"

#include <algorithm>

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kValuesPerThread = 8;  // 16 bytes

struct CombineParams {
  const std::int32_t* row_of_slot;
  AssignmentOutputs y;
  Bf16Bits* out;  ///< null: the sum goes to `sums`
  float* sums;    ///< partial, in float32
  std::int64_t width;
  std::int32_t num_selected;
  std::int32_t shared_row;  ///< row that token 0 has; -1: there is none
  ComputedExperts host;
  ExpertFetchCounts* counts;
};

/// By one thread: until the host has answered the latest request, or has failed to for too long.
__device__ void wait_for_host(const CombineParams& p, bool measures) {
  constexpr std::uint64_t kLongestWait = 120'000'000'000;  // ns
  HostExpertRequest& request = *p.host.request;
  HostExpertState& state = *p.host.state;
  const std::uint64_t number = __ldcg(&state.number), begin = ptx::global_time();
  std::uint64_t waited = 0;
  while (ptx::load_acquire_system(&request.answered) < number) {
    waited = ptx::global_time() - begin;
    if (waited < kLongestWait) continue;
    if (ptx::load_acquire_system(&request.given_up) != 0) break;
    ptx::store_release_system(&request.given_up, 1);
  }
  if (!measures) return;
  state.gpu_ns = static_cast<std::uint32_t>(begin - __ldcg(&state.posted_at));
  state.wait_ns = static_cast<std::uint32_t>(waited);
  atomicAdd(reinterpret_cast<unsigned long long*>(&p.counts->waited_ns), waited);
}

/// One block a token. `kFromHost`: some rows may be the host's, which come when they are there.
template <bool kFromHost>
__global__ void __launch_bounds__(kMaxThreads) combine_kernel(const CombineParams p, NextAtOnce order) {
  // The token's rows in ascending order, which is that of the experts.
  __shared__ std::int32_t rows[kWarpLanes];
  __shared__ int num_rows;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t token = blockIdx.x;
  if (threadIdx.x < kWarpLanes) {
    const int lane = static_cast<int>(threadIdx.x);
    const int row = lane < p.num_selected ? __ldcg(p.row_of_slot + token * p.num_selected + lane) : -1;
    int host_row = -1;
    if constexpr (kFromHost) {
      if (lane < p.num_selected) host_row = __ldcg(p.host.state->row_of_slot + token * p.num_selected + lane);
      if (__any_sync(kAllLanes, host_row >= 0) && lane == 0) wait_for_host(p, token == 0);
      __syncwarp();
    }
    int place = 0;
    for (int other = 0; other < p.num_selected; ++other) {
      const int other_row = __shfl_sync(kAllLanes, row, other);
      place += other_row >= 0 && other_row < row ? 1 : 0;
    }
    if (row >= 0) rows[place] = host_row >= 0 ? ~host_row : row;
    if (lane == 0) num_rows = 0;
    __syncwarp();
    if (row >= 0) atomicAdd(&num_rows, 1);
  }
  __syncthreads();
  const int count = num_rows;
  for (std::int64_t column = threadIdx.x * kValuesPerThread; column < p.width;
       column += blockDim.x * kValuesPerThread) {
    float sum[kValuesPerThread] = {};
    const auto add = [&](const ExpertOutputs& y, std::int64_t row) {
      const std::int64_t at = row * p.width + column;
      alignas(16) float values[kValuesPerThread];
      if (y.partial != nullptr) {
        *reinterpret_cast<float4*>(values) = *reinterpret_cast<const float4*>(y.partial + at);
        *reinterpret_cast<float4*>(values + 4) = *reinterpret_cast<const float4*>(y.partial + at + 4);
      } else {
        unpack_bf16(*reinterpret_cast<const uint4*>(y.rounded + at), values);
      }
#pragma unroll
      for (int i = 0; i < kValuesPerThread; ++i) sum[i] += values[i];
    };
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      if (kFromHost && rows[i] < 0) {
        const std::int64_t at = ~rows[i] * p.width + column;
        float values[kValuesPerThread];
        unpack_bf16(ptx::load_remote(reinterpret_cast<const uint4*>(p.host.y + at)), values);
#pragma unroll
        for (int value = 0; value < kValuesPerThread; ++value) sum[value] += values[value];
      } else {
        add(p.y.routed, rows[i]);
      }
    }
    if (p.shared_row >= 0) add(p.y.shared, p.shared_row + token);
    if (p.out != nullptr) {
      *reinterpret_cast<uint4*>(p.out + token * p.width + column) = pack_bf16(sum);
    } else {
      auto* const to = reinterpret_cast<float4*>(p.sums + token * p.width + column);
      to[0] = {sum[0], sum[1], sum[2], sum[3]};
      to[1] = {sum[4], sum[5], sum[6], sum[7]};
    }
  }
}

}  // namespace

void combine_experts(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                     const AssignmentOutputs& y, CudaContext& context) {
  BALEEN_CHECK(extents.num_selected <= kWarpLanes);
  const std::int64_t width = args.out.extent(1);
  const CombineParams params{
      .row_of_slot = plan.row_of_slot,
      .y = y,
      .out = args.partial_sums ? nullptr : args.out.bf16().data(),
      .sums = args.partial_sums ? args.out.data() : nullptr,
      .width = width,
      .num_selected = static_cast<std::int32_t>(extents.num_selected),
      .shared_row = extents.num_shared > 0 ? static_cast<std::int32_t>(extents.first_shared_row()) : -1,
      .host = args.places.slots.host,
      .counts = args.places.slots.counts};
  const auto threads = static_cast<int>(std::min<std::int64_t>(kMaxThreads, width / kValuesPerThread));
  launch_kernel(
      "combining experts", host_computes(args) ? combine_kernel<true> : combine_kernel<false>,
      {.grid = dim3(static_cast<unsigned>(extents.num_tokens)), .threads = (threads + 31) / 32 * 32},
      context.stream, params);
}

}  // namespace baleen::BALEEN_ARCH
