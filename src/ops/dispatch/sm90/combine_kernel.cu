#include <algorithm>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/dispatch/sm90/dispatch.h"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 264;
constexpr int kValues = 8;
constexpr int kLoadsInFlight = 8;

/// The token's outputs, in ascending expert, then slot. One warp's work.
__device__ void find_rows(const CombineLaunch& p, const Bf16Bits* const* arrays, int token,
                          const Bf16Bits** rows, int* count) {
  const int lane = static_cast<int>(threadIdx.x);
  const int first = token * p.num_selected;
  const std::int32_t id = lane < p.num_selected ? p.ids[first + lane] : -1;
  int place = 0;
  for (int other = 0; other < p.num_selected; ++other) {
    const std::int32_t other_id = __shfl_sync(0xFFFFFFFFu, id, other);
    place += other_id >= 0 && (other_id < id || (other_id == id && other < lane)) ? 1 : 0;
  }
  if (id >= 0) {
    const Bf16Bits* const array = arrays[p.holders.place_of(id)];
    const std::int64_t row = static_cast<std::int64_t>(p.peers.place) * p.places + first + lane;
    rows[place] = array == nullptr ? nullptr : array + row * p.width;
  }
  const int found = __popc(__ballot_sync(0xFFFFFFFFu, id >= 0));
  if (lane == 0) *count = found;
}

__device__ void add(float (&sum)[kValues], const uint4& words) {
  float values[kValues];
  unpack_bf16(words, values);
#pragma unroll
  for (int i = 0; i < kValues; ++i) sum[i] += values[i];
}

/// A block a token.
__global__ void __launch_bounds__(kThreads) combine_kernel(const __grid_constant__ CombineLaunch p) {
  __shared__ const Bf16Bits* arrays[kMaxPeers];
  __shared__ const Bf16Bits* rows[kMaxSelected];
  __shared__ int count;
  ptx::launch_next_kernel();
  ptx::wait_for_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == p.peers.place) arrays[thread] = p.y;
  if (is_peer(p.peers, thread)) {
    if (blockIdx.x == 0) tell_address(p.peers, thread, 0, p.y);
    arrays[thread] = reinterpret_cast<const Bf16Bits*>(hear_address(p.peers, thread, 0));
  }
  for (int token = static_cast<int>(blockIdx.x); token < p.num_tokens; token += static_cast<int>(gridDim.x)) {
    __syncthreads();
    if (thread < 32) find_rows(p, arrays, token, rows, &count);
    __syncthreads();
    for (std::int64_t column = thread * kValues; column < p.width; column += kThreads * kValues) {
      float sum[kValues] = {};
      for (int first = 0; first < count; first += kLoadsInFlight) {
        uint4 words[kLoadsInFlight] = {};
#pragma unroll
        for (int i = 0; i < kLoadsInFlight; ++i) {
          if (first + i < count && rows[first + i] != nullptr)
            words[i] = ptx::load_remote(reinterpret_cast<const uint4*>(rows[first + i] + column));
        }
#pragma unroll
        for (int i = 0; i < kLoadsInFlight; ++i) {
          if (first + i < count) add(sum, words[i]);
        }
      }
      if (p.shared != nullptr) add(sum, *reinterpret_cast<const uint4*>(p.shared + token * p.width + column));
      *reinterpret_cast<uint4*>(p.out + token * p.width + column) = pack_bf16(sum);
    }
  }
  end_exchange_when_all_done(p.peers);
}

}  // namespace

void launch_combine(const CombineLaunch& launch, CudaContext& context) {
  const int blocks = std::clamp(static_cast<int>(launch.num_tokens), 1, kMaxBlocks);
  launch_kernel("combining over ranks", combine_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::sm90
