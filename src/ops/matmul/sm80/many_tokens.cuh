/// Products of weights with many tokens, by a block: 256 weight rows (BF16: 128) and 64 tokens. Operands come
/// to shared memory slice by slice, some slices ahead, as they lie in device memory; codes of tokens become
/// BF16 there, once for all warps. A warp has 32 rows and all tokens (BF16: half of them).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/ptx/cp_async.h"
#include "cuda/warp_reduce.cuh"
#include "ops/matmul/sm80/slice_products.cuh"

namespace baleen::sm80 {

inline constexpr int kManyTokens = 64;  // of a block
inline constexpr int kManyThreads = 256;
inline constexpr int kWarpRowTiles = 2;
inline constexpr int kWarpRows = kWarpRowTiles * kTileOutputs;

/// How a block's rows and tokens are cut over its warps. Two slices of BF16 weights are as large as four of
/// FP8: with half the rows they fit.
template <WeightFormat kWeights>
struct ManyTokensCut {
  static constexpr int kRows = kWeights == WeightFormat::kBF16 ? 128 : 256;
  static constexpr int kRowWarps = kRows / kWarpRows;  // side by side
  static constexpr int kTokenWarps = kManyThreads / kWarpLanes / kRowWarps;
  static constexpr int kWarpTokens = kManyTokens / kTokenWarps;
  static constexpr int kTokenTiles = kWarpTokens / kTileTokens;
};
template <WeightFormat kWeights>
inline constexpr int kManyRows = ManyTokensCut<kWeights>::kRows;

/// Strips lie one behind the other, a little apart, so that the pieces of a row that threads copy together
/// fall into different banks.
inline constexpr int kTokenStripBytes = kManyTokens * kStripBytes + kStripBytes;

/// A stage of shared memory.
template <WeightFormat kWeights, bool kFp8Tokens>
struct ManyTokensStage {
  static constexpr int kWeightStrip = kManyRows<kWeights> * kStripBytes + kStripBytes;
  alignas(16) std::byte weights[kWeightStrips<kWeights>][kWeightStrip];
  alignas(16) std::byte tokens[kTokenStrips<kFp8Tokens>][kTokenStripBytes];
  alignas(16) float token_scales[kFp8Tokens ? kManyTokens : 1];
  std::uint32_t group_scales[kWeights == WeightFormat::kFp4 ? kManyRows<kWeights> : 1];  ///< four bytes a row
};

/// All of it: stages and the tokens of the slice in hand as BF16, and in the end the sums.
template <WeightFormat kWeights, bool kFp8Tokens>
struct ManyTokensShared {
  using Tokens = std::byte[kTokenStrips<false>][kTokenStripBytes];
  static constexpr int kMaxBytes = 99 << 10;  // GPUs of 8.6, 8.9 and 12.0 have no more
  static constexpr int kStageBytes = static_cast<int>(sizeof(ManyTokensStage<kWeights, kFp8Tokens>));
  static constexpr int kTokenBytes = kFp8Tokens ? static_cast<int>(sizeof(Tokens)) : 16;
  static constexpr int kMaxStages = (kMaxBytes - kTokenBytes) / kStageBytes;
  static constexpr int kStages = kMaxStages < 4 ? kMaxStages : 4;
  static_assert(kStages >= 2);
  struct Operands {
    ManyTokensStage<kWeights, kFp8Tokens> stages[kStages];
    alignas(16) std::byte tokens[kTokenBytes];  ///< `Tokens` where they were codes
  };
  union {
    Operands operands;
    float sums[kManyTokens][kManyRows<kWeights> + 4];
  };
};

/// What a block multiplies. Rows and tokens by their numbers in the block.
template <WeightFormat kWeights>
struct ManyTokensWork {
  const std::byte* rows;         ///< where row 0 begins
  std::int64_t row_bytes;        ///< from row to row
  const std::byte* second_rows;  ///< null: rows are of one matrix. Else the second tile of every warp is of
                                 ///< another one, whose first row is here: a warp has 16 rows of either
  const std::uint8_t* group_scales[2];  ///< FP4: of rows and of second_rows
  const float* block_scales[2];         ///< FP8: of the first 128 rows and of second_rows, one a slice
  int num_rows;                         ///< rows that a matrix has here
  const std::byte* tokens;
  std::int64_t token_bytes;   ///< from token to token
  const float* token_scales;  ///< FP8: of token 0, the others behind it
  std::int64_t scale_stride;  ///< from slice to slice
  int num_tokens;
  int num_slices;
};

template <WeightFormat kWeights>
using ManyTokensSums = float[kWarpRowTiles][ManyTokensCut<kWeights>::kTokenTiles][4];

template <WeightFormat kWeights, bool kFp8Tokens>
class ManyTokens {
  using Cut = ManyTokensCut<kWeights>;
  using Shared = ManyTokensShared<kWeights, kFp8Tokens>;
  using Stage = ManyTokensStage<kWeights, kFp8Tokens>;
  using Sums = ManyTokensSums<kWeights>;
  static constexpr int kTokenTiles = Cut::kTokenTiles;

 public:
  __device__ ManyTokens(const ManyTokensWork<kWeights>& work, Shared& shared)
      : work_(work),
        shared_(shared),
        thread_(static_cast<int>(threadIdx.x)),
        row_warp_(thread_ / kWarpLanes % Cut::kRowWarps),
        token_warp_(thread_ / kWarpLanes / Cut::kRowWarps),
        group_(thread_ % kWarpLanes / 4),
        quad_(thread_ % 4) {}

  /// By all threads; ends with a barrier. A lane has of its warp's row tile m and token tile n what
  /// mma_16x8x16 leaves it.
  __device__ void multiply(Sums& sums) {
#pragma unroll
    for (int stage = 0; stage < Shared::kStages - 1; ++stage) {
      if (stage < work_.num_slices) copy(stage);
      ptx::cp_async_commit();
    }
    for (int slice = 0; slice < work_.num_slices; ++slice) {
      ptx::cp_async_wait<Shared::kStages - 2>();
      __syncthreads();
      const int ahead = slice + Shared::kStages - 1;
      if (ahead < work_.num_slices) copy(ahead);
      ptx::cp_async_commit();
      if constexpr (kFp8Tokens) {
        convert(slice);
        __syncthreads();
      }
      add(slice, sums);
    }
    ptx::cp_async_wait<0>();
    __syncthreads();
  }

  /// First row of the warp's row tile `tile`, in its matrix where there are two.
  [[nodiscard]] __device__ int row_of_tile(int tile) const {
    return work_.second_rows == nullptr ? row_warp_ * kWarpRows + tile * kTileOutputs
                                        : row_warp_ * kTileOutputs;
  }
  [[nodiscard]] __device__ int token_of_tile(int tile) const {
    return token_warp_ * Cut::kWarpTokens + tile * kTileTokens;
  }
  [[nodiscard]] __device__ int group() const { return group_; }
  [[nodiscard]] __device__ int quad() const { return quad_; }

 private:
  __device__ Stage& stage_of(int slice) const { return shared_.operands.stages[slice % Shared::kStages]; }
  /// Tokens of the slice in hand as BF16.
  __device__ std::byte* strip_of(Stage& stage, int strip) const {
    return kFp8Tokens ? shared_.operands.tokens + strip * kTokenStripBytes
                      : stage.tokens[strip % kTokenStrips<kFp8Tokens>];
  }

  /// Begins to copy a slice.
  __device__ void copy(int slice) {
    Stage& stage = stage_of(slice);
    constexpr int kRowPieces = 4 * kWeightStrips<kWeights>, kTokenPieces = 4 * kTokenStrips<kFp8Tokens>;
#pragma unroll
    for (int i = thread_; i < kManyRows<kWeights> * kRowPieces; i += kManyThreads) {
      const int row = i / kRowPieces, piece = i % kRowPieces;
      const Row from = row_at(row);
      ptx::cp_async_16(stage.weights[piece / 4] + row * kStripBytes + piece % 4 * kPieceBytes,
                       from.data + std::int64_t{slice} * (kRowPieces * kPieceBytes) + piece * kPieceBytes,
                       from.exists);
    }
    if constexpr (kWeights == WeightFormat::kFp4) {
      static_assert(kManyRows<kWeights> == kManyThreads);
      const Row from = row_at(thread_);
      ptx::cp_async_4(&stage.group_scales[thread_], from.group_scales + 4 * slice, from.exists);
    }
#pragma unroll
    for (int i = thread_; i < kManyTokens * kTokenPieces; i += kManyThreads) {
      const int token = i / kTokenPieces, piece = i % kTokenPieces;
      const int2 to = strip_of_token_piece<kWeights, kFp8Tokens>(piece);
      const bool exists = token < work_.num_tokens;
      ptx::cp_async_16(stage.tokens[to.x] + token * kStripBytes + to.y * kPieceBytes,
                       work_.tokens + (exists ? token : 0) * work_.token_bytes +
                           std::int64_t{slice} * (kTokenPieces * kPieceBytes) + piece * kPieceBytes,
                       exists);
    }
    if constexpr (kFp8Tokens) {
      if (thread_ < kManyTokens) {
        const bool exists = thread_ < work_.num_tokens;
        ptx::cp_async_4(&stage.token_scales[thread_],
                        work_.token_scales + slice * work_.scale_stride + (exists ? thread_ : 0), exists);
      }
    }
  }

  struct Row {
    const std::byte* data;
    const std::uint8_t* group_scales;
    bool exists;
  };
  /// Row `row` of the block; where there is none, row 0 stands in.
  __device__ Row row_at(int row) const {
    const bool two = work_.second_rows != nullptr;
    const int which = two ? row / kTileOutputs % 2 : 0;
    const int in_matrix = two ? row / kWarpRows * kTileOutputs + row % kTileOutputs : row;
    const bool exists = in_matrix < work_.num_rows;
    const std::int64_t at = exists ? in_matrix : 0;
    const std::uint8_t* const scales = which == 0 ? work_.group_scales[0] : work_.group_scales[1];
    return {(which == 0 ? work_.rows : work_.second_rows) + at * work_.row_bytes,
            kWeights == WeightFormat::kFp4 ? scales + at * (4 * work_.num_slices) : nullptr, exists};
  }

  /// Codes of the slice's tokens to BF16, in the order of the instructions: a thread has of one token what a
  /// lane of a quad feeds.
  __device__ void convert(int slice) {
    static_assert(kManyTokens * 4 == kManyThreads);
    Stage& stage = stage_of(slice);
    const int token = thread_ / 4;
    uint4 codes[kTokenStrips<kFp8Tokens>];
#pragma unroll
    for (int strip = 0; strip < kTokenStrips<kFp8Tokens>; ++strip)
      codes[strip] = piece_at(stage.tokens[strip], token);
    const std::uint32_t multiplier = token_multiplier<kFp8Tokens>(codes);
#pragma unroll
    for (int strip = 0; strip < kTokenStrips<false>; ++strip) {
      std::uint32_t even[2], odd[2];
      token_operand<kWeights, kFp8Tokens>(codes, 2 * strip, multiplier, even);
      token_operand<kWeights, kFp8Tokens>(codes, 2 * strip + 1, multiplier, odd);
      *reinterpret_cast<uint4*>(strip_of(stage, strip) + token * kStripBytes + quad_ * kPieceBytes) = {
          even[0], even[1], odd[0], odd[1]};
    }
  }

  __device__ void add(int slice, Sums& sums) {
    Stage& stage = stage_of(slice);
    const int first_row = row_warp_ * kWarpRows + group_, first_token = token_of_tile(0) + group_;
    uint4 rows[kWarpRowTiles][2][kWeightStrips<kWeights>];
    std::uint32_t multipliers[kWarpRowTiles][2];
#pragma unroll
    for (int tile = 0; tile < kWarpRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + tile * kTileOutputs + 8 * half;
#pragma unroll
        for (int strip = 0; strip < kWeightStrips<kWeights>; ++strip)
          rows[tile][half][strip] = piece_at(stage.weights[strip], row);
        if constexpr (kWeights == WeightFormat::kFp4) {
          multipliers[tile][half] = fp4_multiplier(stage.group_scales[row] >> (8 * quad_) & 0xFFu);
        } else {
          multipliers[tile][half] = e4m3_multiplier(1.0F);
        }
      }
    }

    float products[kWarpRowTiles][kTokenTiles][4] = {};
#pragma unroll
    for (int strip = 0; strip < kSliceSteps / 2; ++strip) {
      std::uint32_t upper[kWarpRowTiles][2][2], lower[kWarpRowTiles][2][2];  // [tile][step of the strip]
#pragma unroll
      for (int tile = 0; tile < kWarpRowTiles; ++tile) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          weight_operand<kWeights>(rows[tile][0], 2 * strip + odd, multipliers[tile][0], upper[tile][odd]);
          weight_operand<kWeights>(rows[tile][1], 2 * strip + odd, multipliers[tile][1], lower[tile][odd]);
        }
      }
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        const uint4 b = piece_at(strip_of(stage, strip), first_token + n * kTileTokens);
#pragma unroll
        for (int tile = 0; tile < kWarpRowTiles; ++tile) {
          ptx::mma_16x8x16(products[tile][n], upper[tile][0][0], lower[tile][0][0], upper[tile][0][1],
                           lower[tile][0][1], b.x, b.y);
          ptx::mma_16x8x16(products[tile][n], upper[tile][1][0], lower[tile][1][0], upper[tile][1][1],
                           lower[tile][1][1], b.z, b.w);
        }
      }
    }

    float weight_scales[kWarpRowTiles];
#pragma unroll
    for (int tile = 0; tile < kWarpRowTiles; ++tile) {
      weight_scales[tile] = 1.0F;
      if constexpr (kWeights == WeightFormat::kFp8) {
        const bool second = work_.second_rows != nullptr && tile == 1;
        const float* const of_rows = second ? work_.block_scales[1] : work_.block_scales[0];
        const int block = row_of_tile(tile) < work_.num_rows ? row_of_tile(tile) / kSliceWidth : 0;
        weight_scales[tile] = __ldg(of_rows + block * work_.num_slices + slice);
      }
    }
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      float2 scales{1.0F, 1.0F};
      if constexpr (kFp8Tokens)
        scales = *reinterpret_cast<const float2*>(&stage.token_scales[token_of_tile(n) + 2 * quad_]);
#pragma unroll
      for (int tile = 0; tile < kWarpRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float scale = (i % 2 == 0 ? scales.x : scales.y) * weight_scales[tile];
          sums[tile][n][i] = add_slice(slice_value<kWeights>(products[tile][n][i]), scale, sums[tile][n][i]);
        }
      }
    }
  }

  __device__ uint4 piece_at(const std::byte* strip, int row) const {
    return *reinterpret_cast<const uint4*>(strip + row * kStripBytes + quad_ * kPieceBytes);
  }

  const ManyTokensWork<kWeights>& work_;
  Shared& shared_;
  const int thread_, row_warp_, token_warp_, group_, quad_;
};

}  // namespace baleen::sm80
