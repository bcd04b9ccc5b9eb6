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

constexpr int kMinThreads = 128, kMaxThreads = 512;
constexpr int kValuesPerThread = 8;  // 16 bytes
constexpr int kRowsInFlight = 8;     // of a token, that a thread has under way

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

/// Values of row `row` of y from `at` on. `kPartial`: all of y is in float32.
template <bool kPartial>
__device__ void load_values(const ExpertOutputs& y, std::int64_t at, float (&values)[kValuesPerThread]) {
  if constexpr (kPartial) {
    *reinterpret_cast<float4*>(values) = *reinterpret_cast<const float4*>(y.partial + at);
    *reinterpret_cast<float4*>(values + 4) = *reinterpret_cast<const float4*>(y.partial + at + 4);
  } else {
    unpack_bf16(*reinterpret_cast<const uint4*>(y.rounded + at), values);
  }
}

/// A token's blocks have its columns in turn. `kFromHost`: some rows may be the host's, which come when they
/// are there.
template <bool kFromHost, bool kPartial>
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
      if (__any_sync(kAllLanes, host_row >= 0) && lane == 0) wait_for_host(p, token == 0 && blockIdx.y == 0);
      __syncwarp();
    }
    int place = 0;
    for (int other = 0; other < p.num_selected; ++other) {
      const int other_row = __shfl_sync(kAllLanes, row, other);
      place += other_row >= 0 && other_row < row ? 1 : 0;
    }
    if (row >= 0) rows[place] = host_row >= 0 ? ~host_row : row;
    const int count = __popc(__ballot_sync(kAllLanes, row >= 0));
    if (lane == 0) num_rows = count;
  }
  __syncthreads();
  const int count = num_rows;
  constexpr int kInFlight = kFromHost ? 1 : kRowsInFlight;
  const int step = static_cast<int>(gridDim.y * blockDim.x) * kValuesPerThread;
  for (std::int64_t column = (blockIdx.y * blockDim.x + threadIdx.x) * kValuesPerThread; column < p.width;
       column += step) {
    alignas(16) float of_shared[kValuesPerThread] = {};
    if (p.shared_row >= 0)
      load_values<kPartial>(p.y.shared, (p.shared_row + token) * p.width + column, of_shared);
    float sum[kValuesPerThread] = {};
    for (int first = 0; first < count; first += kInFlight) {
      alignas(16) float values[kInFlight][kValuesPerThread];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        // Without a branch, so that all are under way at once.
        const std::int64_t row = rows[min(first + i, count - 1)];
        if (kFromHost && row < 0) {
          unpack_bf16(ptx::load_remote(reinterpret_cast<const uint4*>(p.host.y + ~row * p.width + column)),
                      values[i]);
        } else {
          load_values<kPartial>(p.y.routed, row * p.width + column, values[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i >= count) break;
#pragma unroll
        for (int value = 0; value < kValuesPerThread; ++value) sum[value] += values[i][value];
      }
    }
    if (p.shared_row >= 0) {
#pragma unroll
      for (int value = 0; value < kValuesPerThread; ++value) sum[value] += of_shared[value];
    }
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
  const bool partial = y.routed.partial != nullptr;
  BALEEN_CHECK_EQ(y.shared.partial != nullptr, partial);
  // Few tokens have several blocks each, of at least kMinThreads.
  const std::int64_t columns = width / kValuesPerThread;
  const std::int64_t blocks = std::clamp<std::int64_t>(context.num_sms / extents.num_tokens, 1,
                                                       (columns + kMinThreads - 1) / kMinThreads);
  const auto threads = static_cast<int>(std::min<std::int64_t>(kMaxThreads, (columns + blocks - 1) / blocks));
  const auto kernel = host_computes(args)
                          ? (partial ? combine_kernel<true, true> : combine_kernel<true, false>)
                          : (partial ? combine_kernel<false, true> : combine_kernel<false, false>);
  launch_kernel("combining experts", kernel,
                {.grid = dim3(static_cast<unsigned>(extents.num_tokens), static_cast<unsigned>(blocks)),
                 .threads = (threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes},
                context.stream, params);
}

}  // namespace baleen::BALEEN_ARCH
