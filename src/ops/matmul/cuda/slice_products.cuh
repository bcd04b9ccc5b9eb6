/// Products of weights and activations on tensor cores by mma.sync, which every GPU since Ampere has:
/// operands as a lane holds them, and the one order of arithmetic to which all kernels on sm80 keep.
///
/// K is cut into slices of 128 inputs. Tensor cores sum a slice from nothing, in eight instructions of 16
/// inputs each; s = s_x * s_w (1 where there are no scales); sum = fma(slice, s, sum) slice after slice, from
/// zero. Weights are always A, tokens always B. So an output's bits depend on its weight row and its token
/// alone, whatever tile computes it.
///
/// FP8 and FP4 operands become BF16, in which they are exact. Which inputs an instruction takes is free as
/// long as both operands agree, and chosen so that a lane has what it needs from 16 bytes at a time: lane 4 g
/// + q holds of rows (or tokens) g and g + 8 every fourth 16-byte piece, and feeds the eight instructions
/// ("steps") from them in order.
///
///     weights  bytes of a slice  pieces of lane q          inputs of step s, lane q
///     BF16     256               q, q + 4, q + 8, q + 12   32 (s / 2) + 8 q + 4 (s % 2) + {0 .. 3}
///     FP8      128               q, q + 4                  64 (s / 4) + 16 q + 4 (s % 4) + {0 .. 3}
///     FP4      64                q: one scale group        32 q + 8 (s / 2) + 2 (s % 2) + {0, 4, 1, 5}
///
/// Tokens with a scale for each 32 inputs, and their weights in FP8 in blocks of 32, are in the order of FP4:
/// lane q has the pieces 2 q and 2 q + 1 of such a weight row, inputs 32 q + 8 (s / 2) + 2 (s % 2) +
/// {0, 4, 1, 5} of step s.
///
/// 64 bytes of a row are a *strip*: a piece for each lane of a quad. Tokens are cut into strips by the order
/// that their weights want.
#pragma once

#include <cstdint>

#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/byte_permute.h"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/scale_group.cuh"
#include "numeric/weight_format.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kSliceWidth = 128;  ///< inputs
inline constexpr int kSliceSteps = 8;    ///< instructions for a tile of a slice
inline constexpr int kTileOutputs = 16;  ///< weight rows of an instruction
inline constexpr int kTileTokens = 8;    ///< tokens of an instruction
inline constexpr int kPieceBytes = 16, kStripBytes = 4 * kPieceBytes;

/// Of a weight row's slice.
template <WeightFormat kWeights>
inline constexpr int kWeightStrips = kWeights == WeightFormat::kFp4 ? 1
                                     : is_fp8(kWeights)             ? 2
                                                                    : 4;
/// Of a token's slice: e4m3 codes, or BF16.
template <bool kFp8Tokens>
inline constexpr int kTokenStrips = kFp8Tokens ? 2 : 4;

/// Which 16-byte piece of a token's slice lane `quad` of four has in strip `strip`.
template <WeightFormat kWeights, bool kFp8Tokens>
__device__ constexpr int token_piece(int strip, int quad) {
  if (kFp8Tokens && kWeights == WeightFormat::kFp4) return 2 * quad + strip;
  if (!kFp8Tokens && is_fp8(kWeights)) return strip / 2 * 8 + 2 * quad + strip % 2;
  return 4 * strip + quad;
}
/// The other way round: the strip of piece `piece`, and the lane of four.
template <WeightFormat kWeights, bool kFp8Tokens>
__device__ constexpr int2 strip_of_token_piece(int piece) {
  if (kFp8Tokens && kWeights == WeightFormat::kFp4) return {piece % 2, piece / 2};
  if (!kFp8Tokens && is_fp8(kWeights)) return {piece / 8 * 2 + piece % 2, piece % 8 / 2};
  return {piece / 4, piece % 4};
}

__device__ inline std::uint32_t word_of(const uint4& piece, int word) {
  return word == 0 ? piece.x : word == 1 ? piece.y : word == 2 ? piece.z : piece.w;
}

/// What brings a row's FP4 codes, which count from 2^-126 as BF16 holds them, to their values times
/// 2^-kFp4Shift: a BF16 number twice in a word. `scale`: the e8m0 code of the lane's group. Exact for scales
/// of 2^-61 to 2^64; smaller ones vanish by and by, larger ones count as that.
inline constexpr int kFp4Shift = 63;
/// And tokens with a scale for each 32 inputs to their values with it times 2^-kGroupTokenShift: exact for
/// scales up to 2^23, larger ones count as that.
inline constexpr int kGroupTokenShift = 16;
__device__ inline std::uint32_t fp4_multiplier(std::uint32_t scale) {
  constexpr std::uint32_t kLargest = 127 + 64;
  return bf16_power_of_two(min(scale, kLargest) + (126 - kFp4Shift), scale == kE8m0NaN);
}

/// Four e4m3 codes as BF16 has them, 2^-120 times what they are.
__device__ inline void tiny_e4m3_pairs(std::uint32_t codes, std::uint32_t (&words)[2]) {
  constexpr std::uint32_t kSignExponentMantissa = 0x87F087F0;
  words[0] = ptx::byte_permute<0x9180>(codes) << 4 & kSignExponentMantissa;
  words[1] = ptx::byte_permute<0xB3A2>(codes) << 4 & kSignExponentMantissa;
}
/// The four values times `multiplier`, as `dequantise_e4m3_pair` has them.
__device__ inline void dequantise_e4m3_pairs(std::uint32_t codes, std::uint32_t multiplier,
                                             std::uint32_t (&words)[2]) {
  tiny_e4m3_pairs(codes, words);
  words[0] = ptx::multiply_bf16_pair(words[0], multiplier);
  words[1] = ptx::multiply_bf16_pair(words[1], multiplier);
}

/// Which of its two multipliers a lane takes for a row (0 or 1): FP4 has one for each row, FP8 in blocks of
/// 32 one for each piece (strip), whose inputs are of one block, as both rows are.
template <WeightFormat kWeights>
__device__ constexpr int multiplier_place(int row, int strip) {
  return kWeights == WeightFormat::kFp8x32 ? strip : row;
}
/// Rows of such a block; and the block of 32 inputs of a slice in which the lane's piece in strip `strip`
/// lies.
inline constexpr int kBlockOutputs = format_layout(WeightFormat::kFp8x32).scale_rows;
static_assert(kBlockOutputs % kTileOutputs == 0);
__device__ constexpr int block_of_piece(int strip, int quad) { return 2 * strip + quad / 2; }

/// Steps that a lane's piece of a weight row feeds.
template <WeightFormat kWeights>
inline constexpr int kPieceSteps = kSliceSteps / kWeightStrips<kWeights>;

/// The lane's two words of a weight row for step `step` of its piece: inputs in order, two to a word.
/// `multiplier`: of FP4 the row's fp4_multiplier, of FP8 `e4m3_multiplier(1)`.
template <WeightFormat kWeights>
__device__ void weight_operand(const uint4& piece, int step, std::uint32_t multiplier,
                               std::uint32_t (&words)[2]) {
  if constexpr (kWeights == WeightFormat::kBF16) {
    words[0] = step == 0 ? piece.x : piece.z;
    words[1] = step == 0 ? piece.y : piece.w;
  } else if constexpr (is_fp8(kWeights)) {
    dequantise_e4m3_pairs(word_of(piece, step), multiplier, words);
  } else {
    // Codes i and i + 4 of a word are 16 bits apart, as the two values of a BF16 word are.
    constexpr std::uint32_t kMagnitudes = 0x01C001C0u, kSigns = 0x80008000u;
    const std::uint32_t codes = word_of(piece, step / 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int code = 2 * (step % 2) + i;
      const std::uint32_t moved = code < 2 ? codes << (6 - 4 * code) : codes >> (4 * code - 6);
      const std::uint32_t tiny = (moved & kMagnitudes) | (codes << (12 - 4 * code) & kSigns);
      words[i] = ptx::multiply_bf16_pair(tiny, multiplier);
    }
  }
}

/// The e4m3 codes in bytes 0 and 2 of `spread`, whose other bytes repeat their signs.
__device__ inline std::uint32_t multiply_spread_codes(std::uint32_t spread, std::uint32_t multiplier) {
  constexpr std::uint32_t kSignExponentMantissa = 0x87F087F0;
  return ptx::multiply_bf16_pair(spread << 4 & kSignExponentMantissa, multiplier);
}

/// Codes 0, 4, 1, 5 of eight, whose words these are, with `second` codes 2, 6, 3, 7: two words of values.
__device__ inline void spread_e4m3_pairs(std::uint32_t low, std::uint32_t high, int second,
                                         std::uint32_t multiplier, std::uint32_t (&words)[2]) {
  if (second == 0) {
    words[0] = multiply_spread_codes(ptx::byte_permute<0xC480>(low, high), multiplier);
    words[1] = multiply_spread_codes(ptx::byte_permute<0xD591>(low, high), multiplier);
  } else {
    words[0] = multiply_spread_codes(ptx::byte_permute<0xE6A2>(low, high), multiplier);
    words[1] = multiply_spread_codes(ptx::byte_permute<0xF7B3>(low, high), multiplier);
  }
}

/// The same of a token. `multiplier`: its `token_multiplier`; BF16 tokens need none.
template <WeightFormat kWeights, bool kFp8Tokens>
__device__ void token_operand(const uint4 (&strips)[kTokenStrips<kFp8Tokens>], int step,
                              std::uint32_t multiplier, std::uint32_t (&words)[2]) {
  if constexpr (!kFp8Tokens) {
    const uint4& piece = strips[step / 2];
    words[0] = step % 2 == 0 ? piece.x : piece.z;
    words[1] = step % 2 == 0 ? piece.y : piece.w;
  } else if constexpr (kWeights == WeightFormat::kFp4) {
    spread_e4m3_pairs(word_of(strips[step / 4], step / 2 * 2 % 4),
                      word_of(strips[step / 4], step / 2 * 2 % 4 + 1), step % 2, multiplier, words);
  } else {
    dequantise_e4m3_pairs(word_of(strips[step / 4], step % 4), multiplier, words);
  }
}

/// What the lane's codes of a token are multiplied with: 1, or NaN where one of them is. (To
/// `dequantise_e4m3_pair` NaN is a number.)
template <bool kFp8Tokens>
__device__ std::uint32_t token_multiplier(const uint4 (&strips)[kTokenStrips<kFp8Tokens>]) {
  std::uint32_t carries = 0;
  if constexpr (kFp8Tokens) {
    constexpr std::uint32_t kMagnitudes = 0x7F7F7F7Fu, kOnes = 0x01010101u;
#pragma unroll
    for (const uint4& piece : strips) {
      carries |= ((piece.x & kMagnitudes) + kOnes) | ((piece.y & kMagnitudes) + kOnes) |
                 ((piece.z & kMagnitudes) + kOnes) | ((piece.w & kMagnitudes) + kOnes);
    }
  }
  constexpr std::uint32_t kTops = 0x80808080u, kNaNs = 0x7FC07FC0u;
  return (carries & kTops) != 0 ? kNaNs : e4m3_multiplier(1.0F);
}

/// A slice's sums as they enter an output: FP4 values were 2^-kFp4Shift times what they are.
template <WeightFormat kWeights>
__device__ float slice_value(float sum) {
  return kWeights == WeightFormat::kFp4 ? sum * power_of_two(kFp4Shift) : sum;
}

/// The next slice of an output.
__device__ inline float add_slice(float slice, float scale, float sum) { return fmaf(slice, scale, sum); }

}  // namespace baleen::BALEEN_ARCH
