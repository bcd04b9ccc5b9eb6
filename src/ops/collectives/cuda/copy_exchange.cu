#include <algorithm>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/kernel_launch.h"
#include "ops/collectives/cuda/exchange.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 64;  // as many as keep the links busy; the others are for other work
constexpr int kLoadsInFlight = 4;

__device__ uint4* vector_at(const VectorRows& rows, int index) {
  const int row = index / rows.vectors, column = index % rows.vectors;
  return reinterpret_cast<uint4*>(rows.data + row * rows.stride) + column;
}

__device__ void copy_own(const CopyExchange& p, int first, int step) {
  const VectorRows& from = p.send[p.peers.place];
  const VectorRows& to = p.to[p.peers.place];
  if (from.data == to.data) return;
  for (int v = first; v < from.rows * from.vectors; v += step) *vector_at(to, v) = *vector_at(from, v);
}

/// An empty message is a vector too: every exchange goes both ways.
__global__ void __launch_bounds__(kThreads)
    push_rows(const __grid_constant__ CopyExchange p, NextAtOnce order) {
  begin_exchange(p.peers, order);
  const int first = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int step = static_cast<int>(gridDim.x * kThreads);
  for (int place = 0; place < p.peers.size; ++place) {
    if (place == p.peers.place) continue;
    const std::uint32_t flag = exchange_flag(p.peers, place);
    uint4* const packets = outbox(p.peers.ports[place], flag);
    const int count = p.send[place].rows * p.send[place].vectors;
    for (int v = first; v < count; v += step)
      push_vector(packets + 2 * v, flag, *vector_at(p.send[place], v));
    if (count == 0 && first == 0) push_vector(packets, flag, {});
  }
  copy_own(p, first, step);
  for (int place = 0; place < p.peers.size; ++place) {
    if (place == p.peers.place) continue;
    const std::uint32_t flag = exchange_flag(p.peers, place);
    const uint4* const packets = inbox(p.peers.ports[place], flag);
    const int count = p.to[place].rows * p.to[place].vectors;
    for (int v = first; v < count; v += step)
      *vector_at(p.to[place], v) = take_vector(p.peers, place, packets + 2 * v, flag);
    if (count == 0 && first == 0) take_vector(p.peers, place, packets, flag);
  }
  end_exchange(p.peers);
}

__global__ void __launch_bounds__(kThreads)
    read_rows(const __grid_constant__ CopyExchange p, NextAtOnce order) {
  __shared__ std::byte* addresses[kMaxPeers];
  begin_exchange(p.peers, order);
  const int thread = static_cast<int>(threadIdx.x);
  if (is_peer(p.peers, thread)) {
    if (blockIdx.x == 0) tell_address(p.peers, thread, 0, p.shared);
    addresses[thread] = hear_address(p.peers, thread, 0);
  }
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x * kThreads) + thread;
  const int step = static_cast<int>(gridDim.x * kThreads);
  copy_own(p, first, step);
  for (int i = 1; i < p.peers.size; ++i) {  // ranks begin with different ones
    const int place = (p.peers.place + i) % p.peers.size;
    if (addresses[place] == nullptr) continue;
    VectorRows from = p.from[place];
    from.data = addresses[place] + reinterpret_cast<std::intptr_t>(from.data);
    const int count = from.rows * from.vectors;
    for (int v = first; v < count; v += kLoadsInFlight * step) {
      uint4 loaded[kLoadsInFlight];
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        if (v + k * step < count) loaded[k] = ptx::load_remote(vector_at(from, v + k * step));
      }
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        if (v + k * step < count) *vector_at(p.to[place], v + k * step) = loaded[k];
      }
    }
  }
  end_exchange_when_all_done<false>(p.peers);
}

}  // namespace

ExchangeWay way_for(std::int64_t largest_message) {
  return largest_message <= kMaxPushedBytes ? ExchangeWay::kPushed : ExchangeWay::kRead;
}

void run_exchange(const CopyExchange& exchange, ExchangeWay way, CudaContext& context) {
  int most = 1;
  for (int i = 0; i < exchange.peers.size; ++i) {
    most = std::max({most, exchange.send[i].rows * exchange.send[i].vectors,
                     exchange.to[i].rows * exchange.to[i].vectors});
  }
  const int blocks = std::min({kMaxBlocks, exchange.peers.max_blocks, (most + kThreads - 1) / kThreads});
  launch_kernel("exchanging rows", way == ExchangeWay::kPushed ? push_rows : read_rows,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream, exchange);
}

}  // namespace baleen::BALEEN_ARCH
