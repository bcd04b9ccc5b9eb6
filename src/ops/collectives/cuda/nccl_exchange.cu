#include "ops/collectives/cuda/nccl_exchange.h"

#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/collectives/cuda/sum_vectors.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1024;
constexpr int kBegun = 0, kEnded = 1;

// Kernels around NCCL's begin when what is before them has ended: a launch of NCCL's says nothing about when
// the next may begin. So they have no `KernelOrder`.

__global__ void count_exchange(ExchangeCounts counts, int which) {
  const std::uint32_t count = counts.in_gpu[which] + 1;
  counts.in_gpu[which] = count;
  static_cast<volatile std::uint32_t*>(counts.in_host)[which] = count;
}

__global__ void __launch_bounds__(kThreads)
    add_arrived_kernel(const __grid_constant__ ArrivedSums p, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; v < p.count;
       v += step) {
    float4 sum{};
    for (int place = 0; place < p.size; ++place)
      add_vector(sum, place == p.place ? p.own[v] : p.arrived[place * p.stride + v], place == 0);
    store_sum(p.y, p.y_is_bf16, p.rounds, v, sum);
  }
}

/// A member is one y of the grid.
template <bool kCuts>
__global__ void __launch_bounds__(kThreads) move_columns(const __grid_constant__ ColumnParts p) {
  const auto member = static_cast<std::int64_t>(blockIdx.y);
  const std::int64_t width = p.width(member), count = p.rows * width;
  auto* const part = reinterpret_cast<uint4*>(member == p.place ? p.own : p.parts + member * p.stride);
  auto* const matrix = reinterpret_cast<uint4*>(p.matrix) + member * p.part_vectors;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; v < count;
       v += step) {
    uint4& there = matrix[v / width * p.row_vectors + v % width];
    if constexpr (kCuts) {
      part[v] = there;
    } else {
      there = part[v];
    }
  }
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

template <bool kCuts>
void launch_columns(const ColumnParts& columns, CudaContext& context) {
  launch_kernel(
      "moving columns", move_columns<kCuts>,
      {.grid = dim3(blocks_for(columns.rows * columns.part_vectors), static_cast<unsigned>(columns.size)),
       .threads = kThreads},
      context.stream, columns);
}

}  // namespace

void NcclExchange::run(CudaContext& context) const {
  const LaunchShape one{.grid = dim3(1), .threads = 1};
  launch_kernel("counting exchanges", count_exchange, one, context.stream, nccl_.counts(), kBegun);
  nccl_.exchange(group_, send_, receive_, context.stream);
  launch_kernel("counting exchanges", count_exchange, one, context.stream, nccl_.counts(), kEnded);
}

void add_arrived(const ArrivedSums& sums, CudaContext& context) {
  if (sums.count == 0) return;
  launch_kernel("adding up over ranks", add_arrived_kernel,
                {.grid = dim3(blocks_for(sums.count)), .threads = kThreads}, context.stream, sums);
}

void cut_columns(const ColumnParts& columns, CudaContext& context) { launch_columns<true>(columns, context); }
void place_columns(const ColumnParts& columns, CudaContext& context) {
  launch_columns<false>(columns, context);
}

}  // namespace baleen::BALEEN_ARCH
