// Weights times values for a few items: a thread block for each item and 64 dims. Its values are dequantised
// while the kernel before still computes weights: all of the list at once, where it is not longer than 16
// blocks.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "ops/sparse_attention/sm90/block_merge.cuh"
#include "ops/sparse_attention/sm90/dequantise_rows.cuh"
#include "ops/sparse_attention/sm90/finish_output.cuh"
#include "ops/sparse_attention/sm90/gather_tiles.h"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 2 * kWarpgroupThreads;
constexpr int kRoundBlocks = 16;  ///< whose values are in shared memory at a time
constexpr int kPieces = 4;        ///< of a row's 64 dims

using Values = std::byte[kRoundBlocks][kTileBytes];

/// Writes entries [64 first_block, 64 (first_block + num_blocks)) of the list, 64 dims each.
__device__ void dequantise_values(const AttentionLaunch& launch, const EntryList& list, int dim_tile,
                                  int first_block, int num_blocks, Values& values) {
  constexpr int kBatch = 8;  // reads that a thread waits for together
  const int count = num_blocks * kBlockEntries * kPieces;
  const bool rotary = dim_tile == kDimTiles - 1;
  for (int begin = static_cast<int>(threadIdx.x); begin < count; begin += kBatch * kThreads) {
    int rows[kBatch];
    PageId pages[kBatch];
    uint4 data[kBatch][2] = {};
    std::uint32_t scales[kBatch] = {};
    const auto index_of = [&](int i) {
      return first_block * kBlockEntries + (begin + i * kThreads) / kPieces;
    };
#pragma unroll
    for (int i = 0; i < kBatch; ++i) rows[i] = list.row(index_of(i));
#pragma unroll
    for (int i = 0; i < kBatch; ++i) pages[i] = list.page(launch, index_of(i), rows[i]);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const RowPlace place(index_of(i) < list.num_window ? launch.window : launch.compressed, pages[i],
                           rows[i], kDataBytes, kScaleBytes);
      if (place.data == nullptr) continue;
      const int piece = (begin + i * kThreads) % kPieces;
      if (rotary) {
        const auto* from = reinterpret_cast<const uint4*>(place.data + kNope) + 2 * piece;
        data[i][0] = __ldcg(from);
        data[i][1] = __ldcg(from + 1);
      } else {
        data[i][0] = __ldcg(reinterpret_cast<const uint4*>(place.data + dim_tile * kLatentBlock) + piece);
        scales[i] = __ldcg(reinterpret_cast<const std::uint8_t*>(place.scales) + dim_tile);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = begin + i * kThreads;
      if (at >= count) break;
      const int entry = at / kPieces % kBlockEntries, piece = at % kPieces;
      std::byte* tile = values[at / kPieces / kBlockEntries];
      if (rotary) {
        *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece)) = data[i][0];
        *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece + 1)) = data[i][1];
      } else {
        store_dequantised(data[i][0], scales[i], tile, entry, piece);
        multiply_by_rest(scales[i], tile, entry, piece);
      }
    }
  }
}

/// A block's weights on their way.
struct Ahead {
  uint4 weights[kBlockSteps];
  float2 softmax[2];

  __device__ void load(const WaitingWeights& waiting, int slot, int thread, int row) {
#pragma unroll
    for (int step = 0; step < kBlockSteps; ++step) {
      weights[step] = __ldcg(waiting.block(slot, thread) + step * kWarpgroupThreads);
    }
    softmax[0] = __ldcg(waiting.heads(slot) + row);
    softmax[1] = __ldcg(waiting.heads(slot) + row + 8);
  }
};

__device__ void add_block(const Ahead& block, const std::byte* values, float (&sums)[kTileSums],
                          SoftmaxState& state) {
  BlockWeights weights;
#pragma unroll
  for (int step = 0; step < kBlockSteps; ++step) {
    weights[step][0] = block.weights[step].x;
    weights[step][1] = block.weights[step].y;
    weights[step][2] = block.weights[step].z;
    weights[step][3] = block.weights[step].w;
  }
  state.merge(block.softmax, weights, sums);
  const std::uint64_t descriptor =
      ptx::wgmma_transposed_descriptor(values, ptx::SmemSwizzle::k128B, kRowGroupBytes, kTileBytes);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kBlockSteps; ++step) {
    constexpr int kStepBytes = kDepth / 8 * kRowGroupBytes;
    ptx::wgmma_bf16<kTileDims, true>(sums, weights[step], descriptor + step * kStepBytes / 16, true);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
#pragma unroll
  for (float& sum : sums) ptx::wgmma_hold(sum);
}

__global__ void __launch_bounds__(kThreads, 1)
    gather_tiles_kernel(const __grid_constant__ AttentionLaunch launch,
                        const __grid_constant__ WorkPlan plan) {
  extern __shared__ std::byte dynamic_shared[];
  Values& values = *reinterpret_cast<Values*>(dynamic_shared + bytes_to_tile(dynamic_shared));
  constexpr int kAhead = 4;
  const int dim_tile = static_cast<int>(blockIdx.x), item = static_cast<int>(blockIdx.y);
  const int query = item / plan.groups, group = item % plan.groups;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int row = thread / kWarpLanes * 16 + thread % kWarpLanes / 4;
  // Lists and cache rows are older than the kernel that computes weights, which lets this one begin after its
  // own wait.
  const EntryList list = EntryList::of(launch, query);
  const int num_blocks = __shfl_sync(kAllLanes, (list.size + kBlockEntries - 1) / kBlockEntries, 0);
  const bool shared = plan.shares(num_blocks);
  float sums[kTileSums] = {};
  SoftmaxState state;
  for (int begin = 0; shared && begin < num_blocks; begin += kRoundBlocks) {
    const int count = min(kRoundBlocks, num_blocks - begin);
    if (begin > 0) __syncthreads();  // the round before is used
    dequantise_values(launch, list, dim_tile, begin, count, values);
    ptx::fence_proxy_async();
    __syncthreads();
    if (begin == 0) ptx::wait_for_previous_kernel();
    if (threadIdx.x >= kWarpgroupThreads) continue;
    const int slot = item * plan.slots + begin;
    Ahead ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i < count) ahead[i].load(plan.waiting, slot + i, thread, row);
    }
    for (int block = 0; block < count; block += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (block + i >= count) break;
        const Ahead now = ahead[i];
        if (block + i + kAhead < count) ahead[i].load(plan.waiting, slot + block + i + kAhead, thread, row);
        add_block(now, values[block + i], sums, state);
      }
    }
  }
  ptx::wait_for_previous_kernel();
  ptx::launch_next_kernel();
  if (!shared || threadIdx.x >= kWarpgroupThreads) return;
  float inverse[2];
  inverse_denominators(launch, group, row, state, num_blocks == 0, inverse);
  store_tile(launch, query, group, dim_tile, thread, sums, inverse);
}

}  // namespace

void gather_tiles(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context) {
  launch_kernel("gather_tiles", gather_tiles_kernel,
                {.grid = dim3(kDimTiles, static_cast<unsigned>(plan.items)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(Values) + kRowGroupBytes},
                context.stream, launch, plan);
}

}  // namespace baleen::sm90
