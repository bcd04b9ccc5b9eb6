/// Kernels whose blocks walk over tiles of outputs, all of K each: their stages, loads and launch.
#pragma once

#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/sm90/bf16_kernel.cuh"

namespace baleen::sm90 {

/// What a kernel keeps in its ring: slices of tiles of kOutputs weights (kBoxes boxes each) and of kTokens
/// rows of x.
template <int kOutputs, int kBoxes, int kMaxTokens, int kSharedBytesForRing>
struct StreamStages {
  static constexpr int kTileOutputs = kOutputs;
  static constexpr int kTokens = kMaxTokens;
  static constexpr int kWeightBoxes = kBoxes;
  static constexpr int kWeightBoxBytes = kTileOutputs * kBoxRowBytes;
  static constexpr int kTokenBoxBytes = kTokens * kBoxRowBytes;
  static constexpr int kWeightBytes = kWeightBoxes * kWeightBoxBytes;
  static constexpr int kStageBytes = kWeightBytes + kBoxesPerSlice * kTokenBoxBytes;
  static constexpr int kFitting = kSharedBytesForRing / kStageBytes;
  static constexpr int kStages = kFitting < kMaxStages ? kFitting : kMaxStages;
};

/// The slices of a block's tiles, one after the other: calls load(place, tile, slice) for each once its stage
/// is free.
template <class S, class Load>
__device__ inline void for_each_slice(const Bf16Products& work, const Ring& ring, Load load) {
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x); tile < work.num_tiles; tile += static_cast<int>(gridDim.x)) {
    for (int slice = 0; slice < work.num_slices; ++slice, place.advance(S::kStages)) {
      ring.barriers.wait_empty(place);
      load(place, tile, slice);
    }
  }
}

/// One thread: weights, which may be on their way before the previous kernel has ended.
template <class S>
__device__ inline void load_weights(const Bf16Products& work, const Ring& ring) {
  for_each_slice<S>(work, ring, [&](const RingPlace& place, int tile, int slice) {
    const Bf16Products::Product& product = product_of(work, tile);
    ring.barriers.expect(place, S::kWeightBytes);
    ptx::tma_load(ring.weights(place), product.weight, ring.barriers.full(place), 0,
                  (tile - product.first_tile) * S::kTileOutputs, slice * S::kWeightBoxes,
                  ptx::L2Hint::kEvictFirst);
  });
}

/// One thread of another warp: x.
template <class S>
__device__ inline void load_tokens(const Bf16Products& work, const Ring& ring, int first_token) {
  ptx::wait_for_previous_kernel();
  int first_column = 0;
  for_each_slice<S>(work, ring, [&](const RingPlace& place, int tile, int slice) {
    if (slice == 0) first_column = tile * S::kTileOutputs / work.group_outputs * work.group_columns;
    ring.barriers.expect(place, S::kStageBytes - S::kWeightBytes);
    ptx::tma_load(ring.tokens(place), work.x, ring.barriers.full(place), 0, first_token,
                  first_column + slice * kBoxesPerSlice, ptx::L2Hint::kEvictLast);
  });
}

/// By the warps after those that multiply.
template <class S>
__device__ inline void load_tiles(const Bf16Products& work, const Ring& ring, int first_token,
                                  int first_thread) {
  const int thread = static_cast<int>(threadIdx.x) - first_thread;
  if (thread == 0) load_weights<S>(work, ring);
  if (thread == kWarpThreads) load_tokens<S>(work, ring, first_token);
}

/// Warps that load_tiles wants.
constexpr int kLoaders = 2;

/// Launches a kernel whose blocks take tile after tile, each with whole K, in the stages of `S`.
template <class S>
void launch_stream(void (*kernel)(Bf16Products, NextAtOnce), int threads, int shared_bytes,
                   const Bf16Work& work, CudaContext& context) {
  const Bf16Products parameters = make_products(work, {.tile_outputs = S::kTileOutputs,
                                                       .weight_bytes = kBoxRowBytes,
                                                       .weight_columns = S::kWeightBoxes,
                                                       .tokens = S::kTokens,
                                                       .token_columns = kBoxesPerSlice});
  launch_bf16({.kernel = kernel,
               .grid = {static_cast<unsigned>(std::min(parameters.num_tiles, context.num_sms)),
                        static_cast<unsigned>((work.num_rows + S::kTokens - 1) / S::kTokens), 1},
               .threads = threads,
               .shared_bytes = shared_bytes},
              parameters, context);
}

}  // namespace baleen::sm90
