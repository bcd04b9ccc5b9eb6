/// Loads of a block that walks over tiles of outputs, all of K each.
#pragma once

#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/bf16_device.cuh"
#include "ops/matmul/bf16_ring.cuh"

namespace baleen {

/// What a kernel keeps in its ring: slices of tiles of kOutputs weights (kBoxes boxes each) and of kTokens rows of x.
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

/// The loads of a block, a slice at a time: all slices of a tile, then the next tile.
template <class S>
struct LoadCursor {
  const Bf16Products& work;
  const Ring& ring;
  int first_token;
  int tile, row, group, slice = 0;
  const CUtensorMap* weight;
  RingPlace place;

  __device__ LoadCursor(const Bf16Products& products, const Ring& stages, int token)
      : work(products), ring(stages), first_token(token) {
    enter(static_cast<int>(blockIdx.x));
  }
  __device__ void enter(int next_tile) {
    tile = next_tile;
    const Bf16Products::Product& product = product_of(work, tile);
    weight = &product.weight;
    row = (tile - product.first_tile) * S::kTileOutputs;
    group = tile * S::kTileOutputs / work.group_outputs;
  }
  __device__ bool done() const { return tile >= work.num_tiles; }
  __device__ void advance() {
    place.advance(S::kStages);
    if (++slice < work.num_slices) return;
    slice = 0;
    enter(tile + static_cast<int>(gridDim.x));
  }
  __device__ void load_weights() const {
    ptx::mbarrier_arrive_expect(ring.full(place), S::kStageBytes);
#pragma unroll
    for (int box = 0; box < S::kWeightBoxes; ++box) {
      ptx::tma_load(ring.weights(place) + box * S::kWeightBoxBytes, *weight, ring.full(place),
                    (slice * S::kWeightBoxes + box) * kBoxRowBytes, row, ptx::L2Hint::kEvictFirst);
    }
  }
  __device__ void load_tokens() const {
#pragma unroll
    for (int box = 0; box < kBoxesPerSlice; ++box) {
      ptx::tma_load(ring.tokens(place) + box * S::kTokenBoxBytes, work.x, ring.full(place),
                    (slice * kBoxesPerSlice + box) * kBoxRowBytes, first_token, group,
                    ptx::L2Hint::kEvictLast);
    }
  }
};

/// One thread. The weights of the first round are on their way before the previous kernel has ended.
template <class S>
__device__ void load_tiles(const Bf16Products& work, const Ring& ring, int first_token) {
  LoadCursor<S> weights(work, ring, first_token), tokens(work, ring, first_token);
  for (int stage = 0; stage < S::kStages && !weights.done(); ++stage, weights.advance())
    weights.load_weights();
  ptx::wait_for_previous_kernel();
  for (int stage = 0; stage < S::kStages && !tokens.done(); ++stage, tokens.advance()) tokens.load_tokens();
  for (; !tokens.done(); tokens.advance()) {
    ring.wait_empty(tokens.place);
    tokens.load_weights();
    tokens.load_tokens();
  }
}

}  // namespace baleen
