#include <algorithm>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/collectives/cuda/exchange.h"
#include "ops/collectives/cuda/sum_vectors.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kPushThreads = 128, kReadThreads = 256;
constexpr int kMaxBlocks = 64;
constexpr int kLoadsInFlight = 4;

__device__ uint4 bits_of(const float4& values) {
  return {__float_as_uint(values.x), __float_as_uint(values.y), __float_as_uint(values.z),
          __float_as_uint(values.w)};
}

__global__ void __launch_bounds__(kPushThreads)
    push_sums(const __grid_constant__ SumExchange p, NextAtOnce order) {
  begin_exchange(p.peers, order);
  const int own = p.peers.place;
  const int first = static_cast<int>(blockIdx.x * kPushThreads + threadIdx.x);
  const int step = static_cast<int>(gridDim.x * kPushThreads);
  for (int place = 0; place < p.peers.size; ++place) {
    if (place == own) continue;
    const std::uint32_t flag = exchange_flag(p.peers, place);
    uint4* const packets = outbox(p.peers.ports[place], flag);
    const auto count = static_cast<int>(p.count[place]);
    for (int v = first; v < count; v += step)
      push_vector(packets + 2 * v, flag, bits_of(p.x[p.first[place] + v]));
    if (count == 0 && first == 0) push_vector(packets, flag, {});
  }
  const auto count = static_cast<int>(p.count[own]);
  for (int v = first; v < count; v += step) {
    float4 sum{};
    for (int place = 0; place < p.peers.size; ++place) {
      if (place == own) {
        add_vector(sum, bits_of(p.x[p.first[own] + v]), place == 0);
      } else {
        const std::uint32_t flag = exchange_flag(p.peers, place);
        const uint4* const packets = inbox(p.peers.ports[place], flag);
        add_vector(sum, take_vector(p.peers, place, packets + 2 * v, flag), place == 0);
      }
    }
    store_sum(p.y, p.y_is_bf16, p.rounds, v, sum);
  }
  if (count == 0 && first == 0) {
    for (int place = 0; place < p.peers.size; ++place) {
      if (place == own) continue;
      const std::uint32_t flag = exchange_flag(p.peers, place);
      take_vector(p.peers, place, inbox(p.peers.ports[place], flag), flag);
    }
  }
  end_exchange(p.peers);
}

__global__ void __launch_bounds__(kReadThreads)
    read_sums(const __grid_constant__ SumExchange p, NextAtOnce order) {
  __shared__ const uint4* arrays[kMaxPeers];
  begin_exchange(p.peers, order);
  const int thread = static_cast<int>(threadIdx.x), own = p.peers.place;
  if (thread == own) arrays[own] = reinterpret_cast<const uint4*>(p.x);
  if (is_peer(p.peers, thread)) {
    if (blockIdx.x == 0) tell_address(p.peers, thread, 0, p.x);
    arrays[thread] = reinterpret_cast<const uint4*>(hear_address(p.peers, thread, 0));
  }
  __syncthreads();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kReadThreads + thread;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kReadThreads;
  const std::int64_t count = p.count[own];
  for (std::int64_t v = first; v < count; v += kLoadsInFlight * step) {
    float4 sums[kLoadsInFlight] = {};
    for (int place = 0; place < p.peers.size; ++place) {
      const uint4* const array = arrays[place];
      if (array == nullptr) continue;
      uint4 loaded[kLoadsInFlight];
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        if (v + k * step < count) loaded[k] = ptx::load_remote(array + p.first[own] + v + k * step);
      }
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        if (v + k * step < count) add_vector(sums[k], loaded[k], place == 0);
      }
    }
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      if (v + k * step < count) store_sum(p.y, p.y_is_bf16, p.rounds, v + k * step, sums[k]);
    }
  }
  end_exchange_when_all_done<false>(p.peers);
}

}  // namespace

void run_exchange(const SumExchange& exchange, ExchangeWay way, CudaContext& context) {
  const bool pushes = way == ExchangeWay::kPushed;
  const int threads = pushes ? kPushThreads : kReadThreads;
  std::int64_t most = 1;
  for (int i = 0; i < exchange.peers.size; ++i) most = std::max(most, exchange.count[i]);
  const std::int64_t blocks =
      std::min<std::int64_t>({kMaxBlocks, exchange.peers.max_blocks, (most + threads - 1) / threads});
  launch_kernel("adding up over ranks", pushes ? push_sums : read_sums,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = threads}, context.stream, exchange);
}

}  // namespace baleen::BALEEN_ARCH
