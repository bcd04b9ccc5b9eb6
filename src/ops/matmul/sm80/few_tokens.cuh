/// Products of weights with few tokens, by a block: 16 weight rows (of one matrix or of two), up to 16
/// tokens.
///
/// Weights come once and go from memory straight into registers. The slices of K go round among the block's
/// warps, whose sums meet in shared memory, where a thread for each output adds them up in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/warp_reduce.cuh"
#include "ops/matmul/cuda/slice_products.cuh"

namespace baleen::sm80 {

inline constexpr int kFewWarps = 8;
inline constexpr int kFewThreads = kFewWarps * kWarpLanes;

/// Where a lane's two rows of a matrix lie, rows lane / 4 and that + 8 of the tile's.
template <WeightFormat kWeights>
struct LaneRows {
  const std::byte* rows[2];
  /// FP4: of these rows; FP8 in blocks of 32: of the tile's rows, four a slice, in the first place.
  const std::uint8_t* group_scales[2] = {};
  const float* block_scales = nullptr;  ///< FP8: of the tile's rows, one a slice
};

/// Tokens of a block: the lane's row of each eight, null where there is none, and the scales of all.
template <int kTiles>
struct LaneTokens {
  const std::byte* rows[kTiles];
  const float* scales = nullptr;  ///< the block's first token's; null: BF16 tokens
  std::int64_t scale_stride = 0;  ///< from slice to slice
  int count = 0;                  ///< tokens that there are
};

template <int kTiles, int kMatrices>
struct FewTokensShared {
  static constexpr int kTokens = kTiles * kTileTokens;
  static constexpr int kPitch = kTileOutputs + 4;  // sums of a warp then lie in different banks
  float sums[2][kFewWarps][kMatrices][kTokens][kPitch];
  float scales[2][kFewWarps][kMatrices][kTokens];
};

/// Rounds of slices whose weights are under way: as many bytes of each format.
template <WeightFormat kWeights>
inline constexpr int kFewRoundsAhead = kWeights == WeightFormat::kFp4 ? 3 : 2;

/// What a lane has of a slice of a matrix.
template <WeightFormat kWeights>
struct WeightPieces {
  uint4 strips[2][kWeightStrips<kWeights>];
  std::uint32_t scales[2];

  __device__ void load(const LaneRows<kWeights>& from, int slice, int quad) {
    constexpr int kSliceBytes = kWeightStrips<kWeights> * kStripBytes;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::byte* at = from.rows[row] + std::int64_t{slice} * kSliceBytes + quad * kPieceBytes;
#pragma unroll
      for (int strip = 0; strip < kWeightStrips<kWeights>; ++strip)
        strips[row][strip] = __ldg(reinterpret_cast<const uint4*>(at + strip * kStripBytes));
      if constexpr (kWeights == WeightFormat::kFp4)
        scales[row] = __ldg(from.group_scales[row] + 4 * slice + quad);
      if constexpr (kWeights == WeightFormat::kFp8x32)
        scales[row] = __ldg(from.group_scales[0] + 4 * slice + block_of_piece(row, quad));
    }
  }

  /// What weight_operand wants, by `multiplier_place`.
  [[nodiscard]] __device__ std::uint32_t multiplier(int place) const {
    if constexpr (kWeights == WeightFormat::kFp8x32) return e4m3_multiplier_of_code(scales[place]);
    return kWeights == WeightFormat::kFp4 ? fp4_multiplier(scales[place]) : e4m3_multiplier(1.0F);
  }
};

template <WeightFormat kWeights, bool kFp8Tokens, int kTiles>
struct TokenPieces {
  uint4 strips[kTiles][kTokenStrips<kFp8Tokens>];

  __device__ void load(const LaneTokens<kTiles>& from, int slice, int quad) {
    constexpr int kSliceBytes = kTokenStrips<kFp8Tokens> * kStripBytes;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int strip = 0; strip < kTokenStrips<kFp8Tokens>; ++strip) {
        strips[tile][strip] = {};
        if (from.rows[tile] == nullptr) continue;
        const int piece = token_piece<kWeights, kFp8Tokens>(strip, quad);
        strips[tile][strip] = *reinterpret_cast<const uint4*>(
            from.rows[tile] + std::int64_t{slice} * kSliceBytes + piece * kPieceBytes);
      }
    }
  }
};

/// By all threads of a block. `finish(row, token, sums)` is called for every output of the tile, by one
/// thread, with its sum for each matrix.
template <WeightFormat kWeights, bool kFp8Tokens, int kTiles, int kMatrices, class Finish>
__device__ void multiply_few_tokens(const LaneRows<kWeights> (&weights)[kMatrices],
                                    const LaneTokens<kTiles>& tokens, int num_slices,
                                    FewTokensShared<kTiles, kMatrices>& shared, Finish finish) {
  constexpr int kTokens = kTiles * kTileTokens, kOutputs = kTileOutputs * kTokens;
  static_assert(kOutputs <= kFewThreads);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpLanes, lane = thread % kWarpLanes;
  const int group = lane / 4, quad = lane % 4;
  const int own_row = thread % kTileOutputs, own_token = thread / kTileOutputs;
  float sums[kMatrices] = {};
  // Weights of the next rounds are on their way, in registers; tokens, which L2 has, of the next one.
  WeightPieces<kWeights> pieces[kFewRoundsAhead<kWeights>][kMatrices];
  TokenPieces<kWeights, kFp8Tokens, kTiles> token_pieces;
  const auto load = [&](WeightPieces<kWeights>(&to)[kMatrices], int slice) {
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) to[matrix].load(weights[matrix], slice, quad);
  };
#pragma unroll
  for (int round = 0; round < kFewRoundsAhead<kWeights>; ++round) {
    const int slice = round * kFewWarps + warp;
    if (slice < num_slices) load(pieces[round], slice);
  }
  if (warp < num_slices) token_pieces.load(tokens, warp, quad);

  const auto run_round = [&](int first, WeightPieces<kWeights>(&pieces)[kMatrices]) {
    const int buffer = first / kFewWarps % 2;
    const int slice = first + warp;
    if (slice < num_slices) {
      const TokenPieces<kWeights, kFp8Tokens, kTiles> tokens_now = token_pieces;
      if (slice + kFewWarps < num_slices) token_pieces.load(tokens, slice + kFewWarps, quad);

      float products[kMatrices][kTiles][4] = {};
      std::uint32_t multipliers[kMatrices][2], token_multipliers[kTiles];
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
        for (int row = 0; row < 2; ++row) multipliers[matrix][row] = pieces[matrix].multiplier(row);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
        token_multipliers[tile] = token_multiplier<kFp8Tokens>(tokens_now.strips[tile]);
#pragma unroll
      for (int step = 0; step < kSliceSteps; ++step) {
        std::uint32_t b[kTiles][2];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
          token_operand<kWeights, kFp8Tokens>(tokens_now.strips[tile], step, token_multipliers[tile],
                                              b[tile]);
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          std::uint32_t upper[2], lower[2];
          constexpr int kSteps = kPieceSteps<kWeights>;
          weight_operand<kWeights>(pieces[matrix].strips[0][step / kSteps], step % kSteps,
                                   multipliers[matrix][multiplier_place<kWeights>(0, step / kSteps)], upper);
          weight_operand<kWeights>(pieces[matrix].strips[1][step / kSteps], step % kSteps,
                                   multipliers[matrix][multiplier_place<kWeights>(1, step / kSteps)], lower);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
            ptx::mma_16x8x16(products[matrix][tile], upper[0], lower[0], upper[1], lower[1], b[tile][0],
                             b[tile][1]);
        }
      }
      const int later = slice + kFewRoundsAhead<kWeights> * kFewWarps;
      if (later < num_slices) load(pieces, later);
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
        auto& to = shared.sums[buffer][warp][matrix];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            to[tile * kTileTokens + 2 * quad + i % 2][group + i / 2 * 8] =
                slice_value<kWeights>(products[matrix][tile][i]);
        }
        if (lane < kTokens) {
          const bool exists = kFp8Tokens && lane < tokens.count;
          float scale = exists ? tokens.scales[slice * tokens.scale_stride + lane] : 1.0F;
          if constexpr (kWeights == WeightFormat::kFp8) scale *= __ldg(weights[matrix].block_scales + slice);
          shared.scales[buffer][warp][matrix][lane] = scale;
        }
      }
    }
    __syncthreads();
    if (thread < kOutputs) {
      const int count = min(kFewWarps, num_slices - first);
      for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          sums[matrix] = add_slice(shared.sums[buffer][i][matrix][own_token][own_row],
                                   shared.scales[buffer][i][matrix][own_token], sums[matrix]);
        }
      }
    }
  };
  for (int first = 0; first < num_slices;) {
#pragma unroll
    for (int round = 0; round < kFewRoundsAhead<kWeights>; ++round) {
      if (first < num_slices) run_round(first, pieces[round]);
      first += kFewWarps;
    }
  }
  if (thread < kOutputs && own_token < tokens.count) finish(own_row, own_token, sums);
}

}  // namespace baleen::sm80
