/// Products of weights with many tokens, by a block: 256 weight rows (or 64, where there are few) and up to
/// 64 tokens. A warp has 32 rows (or 16), which no other warp reads, and all tokens.
///
/// Weights come by cp.async in strips, some strips ahead, each lane's for itself: no barrier is between their
/// arrival and their use. Tokens are BF16 in shared memory, once for all warps: those of the next slice are
/// brought there while a slice is multiplied, so there is one barrier a slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/ptx/cp_async.h"
#include "cuda/warp_reduce.cuh"
#include "ops/matmul/cuda/slice_products.cuh"

namespace baleen::BALEEN_ARCH {

/// What a block computes, and with how many warps. A warp has `kRowTiles` x 16 rows.
template <int kWarps_, int kRowTiles_, int kTokenTiles_>
struct ManyTile {
  static constexpr int kWarps = kWarps_, kRowTiles = kRowTiles_, kTokenTiles = kTokenTiles_;
  static constexpr int kThreads = kWarps * kWarpLanes;
  static constexpr int kWarpRows = kRowTiles * kTileOutputs, kRows = kWarps * kWarpRows;
  static constexpr int kTokens = kTokenTiles * kTileTokens;
  static constexpr int kBlocks =
      (kRows + kSliceWidth - 1) / kSliceWidth;     ///< groups of rows that have one block scale
  static constexpr int kLaneRows = 2 * kRowTiles;  ///< rows that a lane has pieces of, four or two
  /// Tokens that a quad brings to shared memory, one after the other. (Of fewer some warps bring none.)
  static constexpr int kQuadTokens = (4 * kTokens + kThreads - 1) / kThreads;
};
using LargeTile = ManyTile<8, 2, 8>;
using HalfTile = ManyTile<8, 2, 4>;   ///< half as many tokens
using SmallTile = ManyTile<4, 1, 8>;  ///< two on a multiprocessor, where there are few rows

template <class Tile>
struct ManyTokensShared {
  static constexpr int kStages = 4;  ///< strips of weights
  /// Strips of tokens lie a little apart, so that the pieces of neighbouring strips that threads copy
  /// together fall into different banks.
  static constexpr int kTokenStripBytes = Tile::kTokens * kStripBytes + 2 * kPieceBytes;

  uint4 weights[Tile::kWarps][kStages][Tile::kLaneRows][kWarpLanes];
  alignas(
      16) std::byte tokens[2][kTokenStrips<false>][kTokenStripBytes];  ///< BF16, a slice's and the next one's
  /// FP8 tokens: of a token and of the block that a warp's row tile is in.
  alignas(16) float scales[2][Tile::kBlocks][Tile::kTokens];
};
static_assert(sizeof(ManyTokensShared<LargeTile>) <= 99 << 10);  // GPUs of 8.6, 8.9 and 12.0 have no more
static_assert(sizeof(ManyTokensShared<SmallTile>) <= 49 << 10);  // two of them

/// Operands where tokens are converted once for 256 rows. Weights in FP8 are then taken as BF16's tiniest
/// numbers, 2^-120 times what they are, which saves a product for two codes; tokens are 2^118 times what they
/// are instead. FP4 weights are 2^-kFp4Shift times what they are, tokens 2^kFp4Shift times. No rounding is in
/// it, so sums are powers of two apart from those of a few tokens.
///
/// Tokens with a scale for each 32 inputs, `kOwnScales`, are 2^-kGroupTokenShift times what they are with it.
template <WeightFormat kWeights, bool kFp8Tokens, bool kOwnScales = false>
struct ManyOperands {
  static constexpr bool kTiny = kFp8Tokens && kWeights == WeightFormat::kFp8;
  static constexpr int kTokenShift =
      kTiny ? kE4m3ToBf16 - 2 : kFp4Shift;  // 2^120 times 448 is no BF16 number
  static constexpr float kProductScale = kTiny ? 4.0F : 1.0F;
  /// What a slice's sum has to be multiplied by where no scale is left out of it.
  static constexpr float kSliceScale = !kOwnScales                      ? 1.0F
                                       : kWeights == WeightFormat::kFp4 ? 0x1p79F
                                                                        : 0x1p16F;
  static_assert(kGroupTokenShift == 16 && kFp4Shift + kGroupTokenShift == 79);

  /// Words of the lane's piece for its step `step`.
  static __device__ void weight(const uint4& piece, int step, std::uint32_t multiplier,
                                std::uint32_t (&words)[2]) {
    if constexpr (kTiny) {
      tiny_e4m3_pairs(word_of(piece, step), words);
    } else if constexpr (kOwnScales && kWeights == WeightFormat::kFp8x32) {
      spread_e4m3_pairs(word_of(piece, step / 2 * 2), word_of(piece, step / 2 * 2 + 1), step % 2, multiplier,
                        words);
    } else {
      weight_operand<kWeights>(piece, step, multiplier, words);
      if constexpr (kWeights == WeightFormat::kBF16) {
        // An instruction wants its words in neighbouring registers, in another order than a row has them. The
        // compiler would move them there for each instruction anew, were they not results.
#pragma unroll
        for (std::uint32_t& word : words) word = ptx::multiply_bf16_pair(word, bf16_power_of_two(kE8m0Bias));
      }
    }
  }
  static __device__ void token(const uint4 (&codes)[kTokenStrips<kFp8Tokens>], int step,
                               std::uint32_t multiplier, std::uint32_t (&words)[2]) {
    if constexpr (kOwnScales) {
      // In the order of FP4 weights, whose groups these are.
      return token_operand<WeightFormat::kFp4, kFp8Tokens>(codes, step, multiplier, words);
    }
    token_operand<kWeights, kFp8Tokens>(codes, step, multiplier, words);
#pragma unroll
    for (std::uint32_t& word : words)
      word = ptx::multiply_bf16_pair(word, bf16_power_of_two(kE8m0Bias + kTokenShift));
  }
};

/// What a block multiplies. Rows and tokens by their numbers in the block.
template <WeightFormat kWeights>
struct ManyTokensWork {
  const std::byte* rows;         ///< where row 0 begins
  std::int64_t row_bytes;        ///< from row to row
  const std::byte* second_rows;  ///< null: rows are of one matrix. Else the second of two row tiles of every
                                 ///< warp is of another one, whose first row is here
  const std::uint8_t* group_scales[2];  ///< FP4: of rows and of second_rows; FP8 in blocks of 32: of rows
  const float* block_scales[2];         ///< FP8: of the first 128 rows and of second_rows, one a slice
  int num_rows;                         ///< rows that a matrix has here, at least one
  const std::byte* tokens;
  std::int64_t token_bytes;   ///< from token to token
  const float* token_scales;  ///< FP8: of token 0, the others behind it
  std::int64_t scale_stride;  ///< from slice to slice, or from group of 32 inputs to the next
  int num_tokens;             ///< at least one
  int num_slices;
};

/// A lane has of its warp's row tile m and token tile n what mma_16x8x16 leaves it.
template <class Tile>
using ManyTokensSums = float[Tile::kRowTiles][Tile::kTokenTiles][4];

/// Tokens that a tile has room for take their time whether there or not.
///
/// `WordOrder`: FP8 tokens have a scale for each 32 inputs, and so have FP4 weights or FP8 ones in blocks of
/// 32. Lane q of a quad then has inputs [32 q, 32 q + 32) of a slice, of all operands, and feeds the steps in
/// the order of FP4. `WordOrder` says where a word of four codes of a token's slice lies.
template <WeightFormat kWeights, bool kFp8Tokens, class Tile, class WordOrder = void>
class ManyTokens {
  static constexpr bool kOwnScales = !std::is_void_v<WordOrder>;
  static_assert(!kOwnScales || (kFp8Tokens && kWeights != WeightFormat::kFp8));
  static constexpr int kRowTiles = Tile::kRowTiles, kTokenTiles = Tile::kTokenTiles;
  static constexpr int kLaneRows = Tile::kLaneRows, kQuadTokens = Tile::kQuadTokens;
  static constexpr int kBlocks = Tile::kBlocks;
  static_assert(kBlocks <= 2);
  using Sums = ManyTokensSums<Tile>;
  using Operands = ManyOperands<kWeights, kFp8Tokens, kOwnScales>;
  using Shared = ManyTokensShared<Tile>;
  static constexpr int kStrips = kWeightStrips<kWeights>;
  static constexpr int kTokensOfStrip =
      kTokenStrips<false> / kStrips;  ///< strips that a strip of weights meets
  static constexpr int kStages = Shared::kStages;
  /// Strips of FP8 in blocks of 32 that lie in other blocks than the lane's first.
  static constexpr int kBlockStrips = kOwnScales ? 1 : kStrips;
  /// Scales of groups that a lane has of a slice: FP4, of each row; FP8 in blocks of 32, of each row tile and
  /// of those strips.
  static constexpr int kGroups = kWeights == WeightFormat::kFp4      ? kLaneRows
                                 : kWeights == WeightFormat::kFp8x32 ? kRowTiles * kBlockStrips
                                                                     : 1;
  /// Scales are in the operands: none is left for a slice's sum.
  static constexpr bool kInOperands = !kFp8Tokens || kOwnScales;
  /// Bytes from a lane's piece of a strip to that of the next one in the same slice.
  static constexpr int kToNextStrip = kOwnScales ? kPieceBytes : kStripBytes;
  static_assert(kStages % kStrips == 0);

 public:
  __device__ ManyTokens(const ManyTokensWork<kWeights>& work, Shared& shared)
      : shared_(shared),
        num_tokens_(work.num_tokens),
        num_slices_(work.num_slices),
        two_matrices_(work.second_rows != nullptr),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / kWarpLanes),
        lane_(thread_ % kWarpLanes),
        group_(lane_ / 4),
        quad_(lane_ % 4),
        scale_stride_(work.scale_stride) {
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) {
      // Rows that are not there are computed as the last one, and not stored.
      const int row = min(row_of_tile(i / 2) + i % 2 * 8 + group_, work.num_rows - 1);
      const bool second = two_matrices_ && i / 2 == 1;
      rows_[i] = (second ? work.second_rows : work.rows) + row * work.row_bytes +
                 quad_ * (kOwnScales ? kStrips * kPieceBytes : kPieceBytes);
      if constexpr (kWeights == WeightFormat::kFp4) {
        group_scales_[i] = (second ? work.group_scales[1] : work.group_scales[0]) +
                           std::int64_t{row} * (4 * num_slices_) + quad_;
      }
    }
    if constexpr (kWeights == WeightFormat::kFp8x32) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const int row = min(row_of_tile(tile), work.num_rows - 1);
        group_scales_[tile] = (two_matrices_ && tile == 1 ? work.group_scales[1] : work.group_scales[0]) +
                              std::int64_t{row / kBlockOutputs} * (4 * num_slices_) +
                              (kOwnScales ? quad_ : block_of_piece(0, quad_));
      }
    }
    if constexpr (kWeights == WeightFormat::kFp8) {
      const int last_block = (work.num_rows - 1) / kSliceWidth;
      block_scales_[kBlocks - 1] =
          two_matrices_ ? work.block_scales[1] : work.block_scales[0] + last_block * num_slices_;
      block_scales_[0] = work.block_scales[0];
    }
#pragma unroll
    for (int i = 0; i < kQuadTokens; ++i)
      tokens_[i] = work.tokens + min(token(i), num_tokens_ - 1) * work.token_bytes;
    if constexpr (kOwnScales) {
#pragma unroll
      for (int i = 0; i < kQuadTokens; ++i)
        group_token_scales_[i] = work.token_scales + quad_ * scale_stride_ + min(token(i), num_tokens_ - 1);
    } else if constexpr (kFp8Tokens) {
      token_scales_ = work.token_scales + min(thread_, num_tokens_ - 1);
    }
  }

  /// By all threads.
  __device__ void multiply(Sums& sums) {
    begin();
    for (int first = 0; first < num_slices_; first += 2) {
      multiply_slice<0>(first, sums);
      if (first + 1 < num_slices_) multiply_slice<1>(first + 1, sums);
    }
  }

  /// Calls `store(token, row, values)` for all outputs of tokens that are there, with four from `row` on for
  /// each row tile: of each matrix where there are two, else one behind the other.
  template <class Store>
  __device__ void finish(const Sums& sums, Store store) {
    constexpr int kPitch = Tile::kWarpRows + 4;  // of what a warp stores at a time, lanes hit different banks
    auto* const staged = reinterpret_cast<float(*)[kPitch]>(shared_.weights[warp_]);
    static_assert(sizeof(float[kTileTokens][kPitch]) <= sizeof(shared_.weights[0]));
    const int first = (two_matrices_ ? 1 : kRowTiles) * 4 * quad_, next = two_matrices_ ? kTileOutputs : 4;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      __syncwarp();
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          staged[2 * quad_ + i % 2][tile * kTileOutputs + group_ + i / 2 * 8] = sums[tile][n][i];
      }
      __syncwarp();
      const int token = n * kTileTokens + group_;
      if (token >= num_tokens_) continue;
      float4 values[kRowTiles];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile)
        values[tile] = *reinterpret_cast<const float4*>(&staged[group_][first + tile * next]);
      store(token, row_of_tile(0) + first, values);
    }
  }

 private:
  /// First row of the warp's row tile `tile`, in its matrix where there are two.
  [[nodiscard]] __device__ int row_of_tile(int tile) const {
    return two_matrices_ ? warp_ * kTileOutputs : warp_ * Tile::kWarpRows + tile * kTileOutputs;
  }

  /// `slice` is odd or even as kOdd says, so that places in shared memory are constants.
  template <int kOdd>
  __device__ void multiply_slice(int slice, Sums& sums) {
    if constexpr (!kFp8Tokens) {
      if (slice + 1 < num_slices_) copy_tokens<!kOdd>(slice + 1);
      ptx::cp_async_commit();
    }
    std::uint32_t multipliers[kGroups];
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      multipliers[i] = kWeights == WeightFormat::kFp4      ? fp4_multiplier(group_codes_[i])
                       : kWeights == WeightFormat::kFp8x32 ? e4m3_multiplier_of_code(group_codes_[i])
                                                           : e4m3_multiplier(1.0F);
    }
    float block_scales[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      block_scales[i] = kWeights == WeightFormat::kFp8 ? next_block_scales_[i] : 1.0F;
    if constexpr (kInOperands || kWeights == WeightFormat::kFp4) load_scales(slice + 1);
    float products[kRowTiles][kTokenTiles][4] = {};
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      const int next = slice * kStrips + strip + 1;
      copy_weights(next - 1 + kStages, stage_of<kOdd>(slice, strip));
      ptx::cp_async_commit();
#pragma unroll
      for (int pair = 0; pair < kTokensOfStrip; ++pair) {
        const int token_strip = strip * kTokensOfStrip + pair;
        std::uint32_t words[kLaneRows][2][2];  // [row][instruction of the strip of tokens]
#pragma unroll
        for (int row = 0; row < kLaneRows; ++row) {
#pragma unroll
          for (int odd = 0; odd < 2; ++odd)
            Operands::weight(pieces_[row], 2 * pair + odd, multipliers[group_of(row, strip)],
                             words[row][odd]);
        }
        if (pair == kTokensOfStrip - 1) {
          // Copies that began after that of the next strip: of strips, and of tokens for as many slices as
          // began in between.
          constexpr int kCopies = kStages - 1 + (kFp8Tokens ? 0 : kStages / kStrips - 1);
          if (kFp8Tokens || strip == kStrips - 1) {
            ptx::cp_async_wait<kCopies>();
          } else {
            ptx::cp_async_wait<kCopies + 1>();
          }
          read_weights(stage_of<kOdd>(slice, strip + 1));
        }
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          const uint4 b =
              *reinterpret_cast<const uint4*>(shared_.tokens[kOdd][token_strip] +
                                              (n * kTileTokens + group_) * kStripBytes + quad_ * kPieceBytes);
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            const auto& upper = words[2 * tile];
            const auto& lower = words[2 * tile + 1];
            ptx::mma_16x8x16(products[tile][n], upper[0][0], lower[0][0], upper[0][1], lower[0][1], b.x, b.y);
            ptx::mma_16x8x16(products[tile][n], upper[1][0], lower[1][0], upper[1][1], lower[1][1], b.z, b.w);
          }
        }
        // Behind the last slice what is there is read once more, and not used.
        if constexpr (kFp8Tokens) convert_tokens<!kOdd>(token_strip);
      }
    }
    add<kOdd>(block_scales, products, sums);
    if constexpr (kFp8Tokens) {
      load_tokens(slice + 2);
    } else {
      ptx::cp_async_wait<kStrips>();
    }
    __syncthreads();
  }

  /// Where a strip of a slice waits; `strip` may lie behind the slice's.
  template <int kOdd>
  [[nodiscard]] __device__ static int stage_of(int slice, int strip) {
    return kStrips == 1 ? (slice + strip) % kStages : (kOdd * kStrips + strip) % kStages;
  }

  __device__ void begin() {
    if constexpr (kInOperands || kWeights == WeightFormat::kFp4) load_scales(0);
#pragma unroll
    for (int strip = 0; strip < kStages; ++strip) {
      if (!kFp8Tokens && strip % kStrips == 0) {
        if (strip == 0) copy_tokens<0>(0);
        ptx::cp_async_commit();
      }
      copy_weights(strip, strip);
      ptx::cp_async_commit();
    }
    if constexpr (kFp8Tokens) {
      load_tokens(0);
#pragma unroll
      for (int strip = 0; strip < kTokenStrips<false>; ++strip) convert_tokens<0>(strip);
      load_tokens(1);
    }
    ptx::cp_async_wait<kStages - 1>();
    read_weights(0);
    __syncthreads();
  }

  /// The lane's pieces of a strip. Strips come in order.
  __device__ void copy_weights(int strip, int stage) {
    if (strip >= num_slices_ * kStrips) return;
    const bool ends_slice = strip % kStrips == kStrips - 1;
    const int step = ends_slice ? kStrips * kStripBytes - (kStrips - 1) * kToNextStrip : kToNextStrip;
#pragma unroll
    for (int row = 0; row < kLaneRows; ++row) {
      ptx::cp_async_16(&shared_.weights[warp_][stage][row][lane_], rows_[row]);
      rows_[row] += step;
    }
  }
  __device__ void read_weights(int stage) {
#pragma unroll
    for (int row = 0; row < kLaneRows; ++row) pieces_[row] = shared_.weights[warp_][stage][row][lane_];
  }

  /// Of the rows that a lane has; behind the last slice the last one's.
  __device__ void load_scales(int slice) {
    const int at = min(slice, num_slices_ - 1);
    if constexpr (kWeights == WeightFormat::kFp4) {
#pragma unroll
      for (int row = 0; row < kLaneRows; ++row) group_codes_[row] = __ldg(group_scales_[row] + 4 * at);
    } else if constexpr (kWeights == WeightFormat::kFp8x32) {
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        group_codes_[i] =
            __ldg(group_scales_[i / kBlockStrips] + 4 * at + block_of_piece(i % kBlockStrips, 0));
    } else if constexpr (kWeights == WeightFormat::kFp8) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) next_block_scales_[i] = __ldg(block_scales_[i] + at);
    }
  }
  /// Which of a lane's group scales a row of its has in a strip.
  [[nodiscard]] __device__ static constexpr int group_of(int row, int strip) {
    return kWeights == WeightFormat::kFp4      ? row
           : kWeights == WeightFormat::kFp8x32 ? row / 2 * kBlockStrips + strip % kBlockStrips
                                               : 0;
  }
  /// Which of two block scales a row tile has.
  [[nodiscard]] __device__ int block_of_tile(int tile) const {
    return two_matrices_ ? tile : warp_ * Tile::kWarpRows / kSliceWidth;
  }

  /// The thread's quad brings tokens to shared memory: this is its token `which`.
  [[nodiscard]] __device__ int token(int which) const { return which * (Tile::kThreads / 4) + thread_ / 4; }
  /// Whether it has one. Whole warps have or have not.
  [[nodiscard]] __device__ bool brings_tokens() const {
    return Tile::kThreads <= 4 * Tile::kTokens || thread_ / 4 < Tile::kTokens;
  }
  template <int kOdd>
  [[nodiscard]] __device__ std::byte* place(int strip, int which, int piece) const {
    return shared_.tokens[kOdd][strip] + token(which) * kStripBytes + piece * kPieceBytes;
  }

  /// BF16 tokens: a thread's pieces of a slice.
  template <int kOdd>
  __device__ void copy_tokens(int slice) {
    if (!brings_tokens()) return;
#pragma unroll
    for (int which = 0; which < kQuadTokens; ++which) {
#pragma unroll
      for (int i = 0; i < kTokenStrips<false>; ++i) {
        const int piece = 4 * i + quad_;
        const int2 to = strip_of_token_piece<kWeights, kFp8Tokens>(piece);
        ptx::cp_async_16(
            place<kOdd>(to.x, which, to.y),
            tokens_[which] + (std::int64_t{slice} * (4 * kTokenStrips<false>)+piece) * kPieceBytes);
      }
    }
  }

  /// FP8 tokens: codes of a slice to registers, what a lane of a quad feeds of each token. Behind the last
  /// slice the last one's.
  __device__ void load_tokens(int slice) {
    if (!brings_tokens()) return;
    const int at = min(slice, num_slices_ - 1);
    if constexpr (kOwnScales) {
      load_group_tokens(at);
    } else {
      load_slice_tokens(at);
      if constexpr (kWeights == WeightFormat::kFp8) {
        if (thread_ < Tile::kTokens) load_scales(slice);
      }
    }
  }
  /// Of tokens with a scale a slice.
  __device__ void load_slice_tokens(int slice) {
#pragma unroll
    for (int which = 0; which < kQuadTokens; ++which) {
#pragma unroll
      for (int strip = 0; strip < kTokenStrips<true>; ++strip) {
        codes_[which][strip] =
            __ldg(reinterpret_cast<const uint4*>(tokens_[which] + std::int64_t{slice} * kSliceWidth +
                                                 token_piece<kWeights, true>(strip, quad_) * kPieceBytes));
      }
    }
    if (thread_ < Tile::kTokens)
      token_scale_ = __ldg(token_scales_ + slice * scale_stride_) * Operands::kProductScale;
  }
  /// Of tokens with scales of their own.
  __device__ void load_group_tokens(int slice) {
    constexpr int kWords = kSliceWidth / 4 / 4;  // that a lane of a quad has of a slice
#pragma unroll
    for (int which = 0; which < kQuadTokens; ++which) {
      const auto* words =
          reinterpret_cast<const std::uint32_t*>(tokens_[which] + std::int64_t{slice} * kSliceWidth);
      std::uint32_t own[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) own[i] = __ldg(words + WordOrder()(kWords * quad_ + i));
      codes_[which][0] = {own[0], own[1], own[2], own[3]};
      codes_[which][1] = {own[4], own[5], own[6], own[7]};
      group_scales_of_tokens_[which] = __ldg(group_token_scales_[which] + 4 * slice * scale_stride_);
    }
  }
  /// Of the token's codes in registers; its own scale is in it.
  [[nodiscard]] __device__ std::uint32_t multiplier_of_token(int which) const {
    const std::uint32_t one = token_multiplier<true>(codes_[which]);
    if constexpr (!kOwnScales) return one;
    constexpr float kLargest = 0x1p23F;
    const std::uint32_t scaled =
        e4m3_multiplier(fminf(group_scales_of_tokens_[which], kLargest) * power_of_two(-kGroupTokenShift));
    return one == e4m3_multiplier(1.0F) ? scaled : one;
  }

  /// A strip of the slice in registers to shared memory.
  template <int kOdd>
  __device__ void convert_tokens(int strip) {
    if (!brings_tokens()) return;
    if (!kOwnScales && strip == 0 && thread_ < Tile::kTokens) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        const float of_rows = kWeights == WeightFormat::kFp8 ? next_block_scales_[i] : 1.0F;
        shared_.scales[kOdd][i][thread_] = token_scale_ * of_rows;
      }
    }
#pragma unroll
    for (int which = 0; which < kQuadTokens; ++which) {
      const auto& codes = codes_[which];
      if (strip == 0) token_multipliers_[which] = multiplier_of_token(which);
      std::uint32_t even[2], odd[2];
      Operands::token(codes, 2 * strip, token_multipliers_[which], even);
      Operands::token(codes, 2 * strip + 1, token_multipliers_[which], odd);
      *reinterpret_cast<uint4*>(place<kOdd>(strip, which, quad_)) = {even[0], even[1], odd[0], odd[1]};
    }
  }

  template <int kOdd>
  __device__ void add(const float (&block_scales)[kBlocks], const Sums& products, Sums& sums) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const int block = block_of_tile(tile);
      const float* const scales = &shared_.scales[kOdd][block][2 * quad_];
      const float of_rows = kOwnScales   ? Operands::kSliceScale
                            : block == 0 ? block_scales[0]
                                         : block_scales[kBlocks - 1];
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        float2 scale{of_rows, of_rows};
        if constexpr (!kInOperands) scale = *reinterpret_cast<const float2*>(scales + n * kTileTokens);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[tile][n][i] =
              add_slice(products[tile][n][i], i % 2 == 0 ? scale.x : scale.y, sums[tile][n][i]);
      }
    }
  }

  Shared& shared_;
  const int num_tokens_, num_slices_;
  const bool two_matrices_;
  const int thread_, warp_, lane_, group_, quad_;
  const std::byte* rows_[kLaneRows];  ///< the next strip's pieces
  const std::uint8_t* group_scales_[kLaneRows];
  const float* block_scales_[kBlocks];  ///< those of rows 0 to 127 and of the others, or of two matrices
  const std::byte* tokens_[kQuadTokens];
  const float* token_scales_;
  const float* group_token_scales_[kQuadTokens];  ///< that of the lane's group in slice 0
  float group_scales_of_tokens_[kQuadTokens];     ///< those of the codes in registers
  std::int64_t scale_stride_;
  uint4 pieces_[kLaneRows];  ///< the strip of weights in hand
  std::uint32_t group_codes_[kGroups];
  float next_block_scales_[kBlocks];
  uint4 codes_[kQuadTokens][kTokenStrips<true>];  ///< FP8 tokens: the next slice's
  std::uint32_t token_multipliers_[kQuadTokens];
  float token_scale_;
};

}  // namespace baleen::BALEEN_ARCH
