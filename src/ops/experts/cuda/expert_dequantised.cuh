/// Products of experts whose weights a kernel dequantises to BF16 beside them, which is exact: NVFP4, FP8 of
/// a shared expert, and, where activations have a scale per 32, FP4 and FP8 in blocks of 32. A warp
/// multiplies 16 weight rows by the tokens of a tile:
///
///   inner   8 rows of w1 and the same of w3, so that a thread has what SwiGLU takes; the 16 warps of a
///           block make a scale group of a, which they quantise together, or eight warps two groups of 32
///   down    16 rows of w2
///
/// Thread 4 g + q has rows g and g + 8, of which it loads inputs [32 q, 32 q + 32) of every slice of 128, one
/// group of 32: of NVFP4 two scale groups. Scales of 32 are powers of two and enter the BF16 values, those of
/// weights and of activations alike, of which a slice then has no other. e2m1's three magnitude bits at the
/// top of BF16's mantissa and the bottom of its exponent read as 2^-126 of their value, and one product with
/// the group's scale times 2^110 makes 2^-16 of the weight, exactly (six bits); the missing 2^16 is a factor
/// of outputs beside the matrix's scale.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/byte_permute.h"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/dequantised_values.cuh"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/cuda/expert_outputs.cuh"
#include "ops/experts/cuda/expert_rows.h"
#include "ops/experts/cuda/expert_weights.h"

namespace baleen::BALEEN_ARCH::dequantised {

inline constexpr int kWarps = 16;  ///< a block has: a scale group of 128 has as many
inline constexpr int kThreads = kWarps * kWarpLanes;
/// Where groups have 32. A call with few tokens has few blocks, those of a shared expert with twice the bytes
/// of others: smaller ones are shared out more evenly over multiprocessors.
inline constexpr int kSmallGroupWarps = 8;
inline constexpr int kChunkSlices = 4;  ///< slices whose tokens are in shared memory
inline constexpr int kWarpInner = 8;    ///< inner values of a warp
inline constexpr int kWarpDown = 16;    ///< outputs of a warp
static_assert(kWarps * kWarpInner == kActivationGroup &&
              kSmallGroupWarps * kWarpInner % kSmallActivationGroup == 0);
inline constexpr int kScaleCodes = 128;        ///< e4m3 codes that are not negative
inline constexpr float kMissing = 0x1p16F;     ///< factor of outputs
inline constexpr float kToMissing = 0x1p110F;  ///< factor of scales

/// One of w1, w3, w2, of all routed experts or of the shared one.
struct Matrix {
  const std::uint8_t* codes;
  /// NVFP4: e4m3 codes per row and 16 inputs; FP4: e8m0 codes per row and 32; FP8: floats per 128 x 128, or
  /// e8m0 codes per 32 x 32
  const void* scales;
  const float* matrix_scales;                          ///< NVFP4
  std::int64_t code_distance;                          ///< from place to place
  std::int64_t scale_distance, matrix_scale_distance;  ///< elements from place to place
};

struct Params {
  const TokenTile* tiles;
  const std::int32_t* num_tiles;
  Matrix routed[3];  ///< w1, w3, w2
  Matrix shared[3];
  const std::int32_t* places;
  Fp8Rows x;      ///< words lie as `product_word` says
  Fp8Rows inner;  ///< so do these; rows are `inner_pitch` apart
  const float* row_weight;
  AssignmentOutputs y;
  std::int32_t num_experts;
  std::int32_t width;
  std::int32_t inner_width;  ///< width of routed experts
  std::int32_t shared_inner_width;
  std::int32_t inner_pitch;
  float swiglu_limit;

  [[nodiscard]] __device__ bool is_shared(const TokenTile& tile) const { return tile.expert == num_experts; }
  [[nodiscard]] __device__ const ExpertOutputs& outputs(const TokenTile& tile) const {
    return is_shared(tile) ? y.shared : y.routed;
  }
  /// Where outputs of token `token` of a tile from `column` on have their place.
  [[nodiscard]] __device__ std::int64_t output_place(const TokenTile& tile, int token, int column) const {
    return std::int64_t{tile.first_row + token} * width + column;
  }
};

/// A row of weights as thread 4 g + q reads it.
template <WeightFormat kFormat>
struct RowReader;

template <>
struct RowReader<WeightFormat::kNvfp4> {
  static constexpr int kSlicesAhead = 4;  ///< under way
  /// Its part of a slice.
  struct Slice {
    uint4 codes;
    std::uint16_t scales;  ///< two groups have one each
  };
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  float factor;  ///< multiplies outputs

  __device__ RowReader(const Matrix& matrix, int place, int row, int num_inputs) {
    const int q = threadIdx.x % 4;
    codes = matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * (num_inputs / 2) +
            q * 16;
    scales = static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
             static_cast<std::int64_t>(row) * (num_inputs / 16) + q * 2;
    factor = matrix.matrix_scales[place * matrix.matrix_scale_distance] * kMissing;
  }
  __device__ Slice load(int slice) const {
    return {__ldcg(reinterpret_cast<const uint4*>(codes + slice * 64)),
            *reinterpret_cast<const std::uint16_t*>(scales + slice * 8)};
  }
  /// Of the activations' scale in a slice.
  __device__ float slice_factor(int /*slice*/) const { return 1.0F; }

  /// Inputs 8 eighth to 8 eighth + 7 of the 32, as pairs (0, 4), (1, 5), (2, 6), (3, 7).
  __device__ static void dequantise(const Slice& slice, int eighth, const std::uint32_t* multipliers,
                                    std::uint32_t (&pairs)[4]) {
    const std::uint32_t words[4] = {slice.codes.x, slice.codes.y, slice.codes.z, slice.codes.w};
    dequantise_e2m1_word(words[eighth],
                         multipliers[(eighth < 2 ? slice.scales : slice.scales >> 8) & (kScaleCodes - 1)],
                         pairs);
  }
};

template <>
struct RowReader<WeightFormat::kFp8> {
  static constexpr int kSlicesAhead = 2;
  struct Slice {
    uint4 codes[2];
  };
  const std::uint8_t* codes;
  const float* scales;
  float factor = 1.0F;

  __device__ RowReader(const Matrix& matrix, int place, int row, int num_inputs) {
    const int q = threadIdx.x % 4;
    codes =
        matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * num_inputs + q * 32;
    scales = static_cast<const float*>(matrix.scales) + place * matrix.scale_distance +
             static_cast<std::int64_t>(row / kActivationGroup) * (num_inputs / kActivationGroup);
  }
  __device__ Slice load(int slice) const {
    const auto* from = reinterpret_cast<const uint4*>(codes + slice * kActivationGroup);
    return {{__ldcg(from), __ldcg(from + 1)}};
  }
  __device__ float slice_factor(int slice) const { return scales[slice]; }
  __device__ static void dequantise(const Slice& slice, int eighth, const std::uint32_t* /*multipliers*/,
                                    std::uint32_t (&pairs)[4]) {
    dequantise_eighth(slice.codes, eighth, e4m3_multiplier(1.0F), pairs);
  }
  /// Of its 32 codes.
  __device__ static void dequantise_eighth(const uint4 (&codes)[2], int eighth, std::uint32_t multiplier,
                                           std::uint32_t (&pairs)[4]) {
    const uint4& half = codes[eighth / 2];
    dequantise_e4m3_words(eighth % 2 == 0 ? half.x : half.z, eighth % 2 == 0 ? half.y : half.w, pairs,
                          multiplier);
  }
};

template <>
struct RowReader<WeightFormat::kFp8x32> {
  static constexpr int kSlicesAhead = 2;
  struct Slice {
    uint4 codes[2];
    std::uint32_t scale;
  };
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  float factor = 1.0F;

  __device__ RowReader(const Matrix& matrix, int place, int row, int num_inputs) {
    const int q = threadIdx.x % 4;
    codes =
        matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * num_inputs + q * 32;
    scales = static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
             static_cast<std::int64_t>(row / 32) * (num_inputs / 32) + q;
  }
  __device__ Slice load(int slice) const {
    const auto* from = reinterpret_cast<const uint4*>(codes + slice * kActivationGroup);
    return {{__ldcg(from), __ldcg(from + 1)}, scales[slice * 4]};
  }
  __device__ float slice_factor(int /*slice*/) const { return 1.0F; }
  __device__ static void dequantise(const Slice& slice, int eighth, const std::uint32_t* /*multipliers*/,
                                    std::uint32_t (&pairs)[4]) {
    RowReader<WeightFormat::kFp8>::dequantise_eighth(slice.codes, eighth,
                                                     e4m3_multiplier_of_code(slice.scale), pairs);
  }
};

template <>
struct RowReader<WeightFormat::kFp4> {
  static constexpr int kSlicesAhead = 4;
  struct Slice {
    uint4 codes;
    std::uint32_t scale;
  };
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  float factor = 1.0F;

  __device__ RowReader(const Matrix& matrix, int place, int row, int num_inputs) {
    const int q = threadIdx.x % 4;
    codes = matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * (num_inputs / 2) +
            q * 16;
    scales = static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
             static_cast<std::int64_t>(row) * (num_inputs / 32) + q;
  }
  __device__ Slice load(int slice) const {
    return {__ldcg(reinterpret_cast<const uint4*>(codes + slice * 64)), scales[slice * 4]};
  }
  __device__ float slice_factor(int /*slice*/) const { return power_of_two(kFp4Shift); }
  __device__ static void dequantise(const Slice& slice, int eighth, const std::uint32_t* /*multipliers*/,
                                    std::uint32_t (&pairs)[4]) {
    constexpr std::uint32_t kLargest = kE8m0Bias + 64;
    const std::uint32_t words[4] = {slice.codes.x, slice.codes.y, slice.codes.z, slice.codes.w};
    dequantise_e2m1_word(
        words[eighth],
        bf16_power_of_two(min(slice.scale, kLargest) + (126 - kFp4Shift), slice.scale == kE8m0NaN), pairs);
  }
};

/// Tokens of a tile, some slices at a time, as B operands: the pairs of inputs 32 q + 8 e to + 7 of token t
/// in slice s at pairs[s][t][4 e + q]. Unused tokens are zero.
template <int kTokens>
struct Columns {
  /// Units of 16 bytes; neighbours begin in different halves of the banks.
  static constexpr int kStride = 20;
  uint4 pairs[kChunkSlices][kTokens][kStride];
  alignas(8) float scales[kChunkSlices][kTokens];
};

template <int kTokens>
struct ProductSmem {
  union {
    Columns<kTokens> columns;
    Bf16Bits inner[kTokens][kActivationGroup];  ///< behind the last product
  };
  std::uint32_t multipliers[kScaleCodes];  ///< each e4m3 scale, twice in a word
};

/// Rows of a tile, with a scale for kGroup values each, on their way to `Columns`.
template <int kTokens, int kGroup = kActivationGroup, int kBlockWarps = kWarps>
class ColumnLoader {
 public:
  __device__ ColumnLoader(const Fp8Rows& rows, std::int64_t pitch, const TokenTile& tile, int num_inputs)
      : rows_(rows), pitch_(pitch), tile_(tile), num_slices_(num_inputs / kActivationGroup) {}

  /// Starts the way of the chunk's slices from `first` on.
  __device__ void load(int first) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      low_[i] = high_[i] = 0;
      if (item.token >= tile_.num_rows || first + item.slice >= num_slices_) continue;
      const auto* words = reinterpret_cast<const std::uint32_t*>(
          rows_.codes + (tile_.first_row + item.token) * pitch_ + (first + item.slice) * kActivationGroup);
      low_[i] = __ldcg(words + 8 * item.eighth + item.q);  // product_word(8 q + 2 eighth)
      high_[i] = __ldcg(words + 8 * item.eighth + 4 + item.q);
      if constexpr (kOwnScales) {
        const std::int64_t group = (first + item.slice) * (kActivationGroup / kGroup) + item.q;
        scales_[i] = __ldcg(rows_.scales + group * rows_.scale_stride + tile_.first_row + item.token);
      }
    }
    scale_ = power_of_two(kTokenShift);
    if constexpr (kOwnScales) return;
    scale_ = 0.0F;
    const int slice = static_cast<int>(threadIdx.x) / kTokens,
              token = static_cast<int>(threadIdx.x) % kTokens;
    if (slice < kChunkSlices && first + slice < num_slices_ && token < tile_.num_rows)
      scale_ = __ldcg(rows_.scales + (first + slice) * rows_.scale_stride + tile_.first_row + token);
  }
  __device__ void store(Columns<kTokens>& to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      std::uint32_t pairs[4];
      dequantise_e4m3_words(low_[i], high_[i], pairs, multiplier(i));
      to.pairs[item.slice][item.token][4 * item.eighth + item.q] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    }
    const int slice = static_cast<int>(threadIdx.x) / kTokens,
              token = static_cast<int>(threadIdx.x) % kTokens;
    if (slice < kChunkSlices) to.scales[slice][token] = scale_;
  }

 private:
  static constexpr bool kOwnScales = kGroup < kActivationGroup;  ///< an item's 32 inputs have one
  static constexpr int kThreads = kBlockWarps * kWarpLanes;
  static constexpr int kItems = kChunkSlices * kTokens * 16 / kThreads;
  static_assert(kItems * kThreads == kChunkSlices * kTokens * 16 && kChunkSlices * kTokens <= kThreads);

  /// Eight inputs of a token.
  struct Item {
    int q, eighth, token, slice;
    __device__ explicit Item(int i) {
      const int number = i * kThreads + static_cast<int>(threadIdx.x);
      q = number % 4;
      eighth = number / 4 % 4;
      token = number / 16 % kTokens;
      slice = number / 16 / kTokens;
    }
  };

  [[nodiscard]] __device__ std::uint32_t multiplier(int i) const {
    if constexpr (!kOwnScales) return e4m3_multiplier(1.0F);
    return token_multiplier(low_[i], high_[i], scales_[i]);
  }

  const Fp8Rows& rows_;
  std::int64_t pitch_;
  const TokenTile& tile_;
  int num_slices_;
  std::uint32_t low_[kItems], high_[kItems];
  float scales_[kOwnScales ? kItems : 1] = {};
  float scale_ = 0.0F;
};

/// acc[b][2 h + i]: row g + 8 h (`first`, `second`) times token 8 b + 2 q + i, without the rows' factors. All
/// threads of the block take part.
template <WeightFormat kFormat, int kTokens, int kGroup, int kBlockWarps>
__device__ void multiply(const RowReader<kFormat>& first, const RowReader<kFormat>& second, int num_inputs,
                         ColumnLoader<kTokens, kGroup, kBlockWarps>& loader, ProductSmem<kTokens>& memory,
                         float (&acc)[kTokens / 8][4]) {
  constexpr int kBlocks = kTokens / 8;
  using Slice = typename RowReader<kFormat>::Slice;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  const int num_slices = num_inputs / kActivationGroup;
  constexpr int kAhead = RowReader<kFormat>::kSlicesAhead;
  static_assert(kChunkSlices % kAhead == 0);
  Slice slices[kAhead][2];
#pragma unroll
  for (int s = 0; s < kAhead; ++s) {
    if (s < num_slices) {
      slices[s][0] = first.load(s);
      slices[s][1] = second.load(s);
    }
  }
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (float& value : acc[b]) value = 0.0F;
  }
  loader.load(0);
#pragma unroll 1
  for (int chunk = 0; chunk < num_slices; chunk += kChunkSlices) {
    __syncthreads();
    loader.store(memory.columns);
    __syncthreads();
    loader.load(chunk + kChunkSlices);
#pragma unroll
    for (int s = 0; s < kChunkSlices; ++s) {
      const int slice = chunk + s;
      if (slice >= num_slices) break;
      float sums[kBlocks][4] = {};
#pragma unroll
      for (int eighth = 0; eighth < 4; ++eighth) {
        std::uint32_t a[4], b[4];
        RowReader<kFormat>::dequantise(slices[s % kAhead][0], eighth, memory.multipliers, a);
        RowReader<kFormat>::dequantise(slices[s % kAhead][1], eighth, memory.multipliers, b);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const uint4 x = memory.columns.pairs[s][8 * block + g][4 * eighth + q];
          ptx::mma_16x8x16(sums[block], a[0], b[0], a[1], b[1], x.x, x.y);
          ptx::mma_16x8x16(sums[block], a[2], b[2], a[3], b[3], x.z, x.w);
        }
      }
      const float factors[2] = {first.slice_factor(slice), second.slice_factor(slice)};
      if (slice + kAhead < num_slices) {
        slices[s % kAhead][0] = first.load(slice + kAhead);
        slices[s % kAhead][1] = second.load(slice + kAhead);
      }
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const float2 scales = *reinterpret_cast<const float2*>(&memory.columns.scales[s][8 * block + 2 * q]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          acc[block][2 * half] = fmaf(sums[block][2 * half], scales.x * factors[half], acc[block][2 * half]);
          acc[block][2 * half + 1] =
              fmaf(sums[block][2 * half + 1], scales.y * factors[half], acc[block][2 * half + 1]);
        }
      }
    }
  }
}

/// Behind the next barrier of the block.
__device__ inline void make_multipliers(std::uint32_t (&multipliers)[kScaleCodes]) {
  const std::uint32_t code = threadIdx.x;
  if (code >= kScaleCodes) return;
  // e4m3's exponent and mantissa in float32's fields are 2^-120 of the value.
  const float value = __uint_as_float(code << 20) * 0x1p120F;
  multipliers[code] = bf16_bits(value * kToMissing) * 0x10001u;
}

/// Piece `number` of kValues inner values of a tile's tokens, a slice or a part of one, quantised by all
/// threads of a block, to `p.inner`.
template <int kGroup, int kValues, int kTokens>
__device__ void quantise_inner(const Params& p, const TokenTile& tile, int number,
                               const Bf16Bits (&inner)[kTokens][kActivationGroup]) {
  constexpr int kLanes = kValues / 4, kTokensOfWarp = kWarpLanes / kLanes;
  constexpr int kPieces = kActivationGroup / kValues;  // of a slice
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  for (int first = thread / kWarpLanes * kTokensOfWarp; first < tile.num_rows;
       first += static_cast<int>(blockDim.x) / kLanes) {
    const int token = first + thread % kWarpLanes / kLanes;
    const bool exists = token < tile.num_rows;
    float values[4];
    unpack_bf16(*reinterpret_cast<const uint2*>(&inner[exists ? token : first][4 * lane]), values);
    const Fp8Piece<4> piece = quantise_fp8_group<4, kGroup>(values);
    if (!exists) continue;
    const std::int64_t row = tile.first_row + token;
    auto* const words = reinterpret_cast<std::uint32_t*>(p.inner.codes + row * p.inner_pitch +
                                                         number / kPieces * kActivationGroup);
    words[product_word(number % kPieces * kLanes + lane)] = piece.codes[0];
    if (lane % (kGroup / 4) == 0) {
      const int group = number * (kValues / kGroup) + lane / (kGroup / 4);
      p.inner.scales[group * p.inner.scale_stride + row] = piece.scale;
    }
  }
}

/// Of the slice of inner values that the block has by its place in the grid.
template <int kGroup = kActivationGroup, int kTokens>
__device__ void quantise_inner(const Params& p, const TokenTile& tile,
                               const Bf16Bits (&inner)[kTokens][kActivationGroup]) {
  quantise_inner<kGroup, kActivationGroup>(p, tile, static_cast<int>(blockIdx.y), inner);
}

template <WeightFormat kFormat, int kGroup = kActivationGroup, int kBlockWarps = kWarps, int kTokens>
__device__ void multiply_inner(const Params& p, const Matrix (&matrices)[3], const TokenTile& tile, int place,
                               ProductSmem<kTokens>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int g = lane / 4, q = lane % 4;
  const int n = (static_cast<int>(blockIdx.y) * kBlockWarps + warp) * kWarpInner + g;
  const RowReader<kFormat> gate(matrices[0], place, n, p.width), up(matrices[1], place, n, p.width);
  ColumnLoader<kTokens, kGroup, kBlockWarps> loader(p.x, p.width, tile, p.width);
  float acc[kTokens / 8][4];
  multiply(gate, up, p.width, loader, memory, acc);
  __syncthreads();
#pragma unroll
  for (int block = 0; block < kTokens / 8; ++block) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = 8 * block + 2 * q + i;
      if (token >= tile.num_rows) continue;
      memory.inner[token][warp * kWarpInner + g] =
          activate(acc[block][i] * gate.factor, acc[block][2 + i] * up.factor, clamp_limit(p.swiglu_limit),
                   p.row_weight[tile.first_row + token]);
    }
  }
  __syncthreads();
  quantise_inner<kGroup, kBlockWarps * kWarpInner>(p, tile, static_cast<int>(blockIdx.y), memory.inner);
}

template <WeightFormat kFormat, int kGroup = kActivationGroup, int kBlockWarps = kWarps, int kTokens>
__device__ void multiply_down(const Params& p, const Matrix (&matrices)[3], const TokenTile& tile, int place,
                              int num_inputs, ProductSmem<kTokens>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int g = lane / 4, q = lane % 4;
  const int n = (static_cast<int>(blockIdx.y) * kBlockWarps + warp) * kWarpDown + g;
  // Rows past the last one are computed as that and not stored.
  const RowReader<kFormat> first(matrices[2], place, min(n, p.width - 1), num_inputs);
  const RowReader<kFormat> second(matrices[2], place, min(n + 8, p.width - 1), num_inputs);
  ColumnLoader<kTokens, kGroup, kBlockWarps> loader(p.inner, p.inner_pitch, tile, num_inputs);
  float acc[kTokens / 8][4];
  multiply(first, second, num_inputs, loader, memory, acc);
#pragma unroll
  for (int block = 0; block < kTokens / 8; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * block + 2 * q + i % 2, column = n + i / 2 * 8;
      if (token >= tile.num_rows || column >= p.width) continue;
      store_output(p.outputs(tile), p.output_place(tile, token, column), acc[block][i] * first.factor);
    }
  }
}

inline Matrix describe(std::span<const ExpertWeights> experts, WeightMatrix ExpertWeights::*which) {
  const WeightMatrix& first = experts[0].*which;
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(first.data) % 16, 0);
  return {.codes = reinterpret_cast<const std::uint8_t*>(first.data),
          .scales = first.scales(),
          .matrix_scales = first.matrix_scale,
          .code_distance = expert_distance(experts, which),
          .scale_distance = expert_scale_distance(experts, which),
          .matrix_scale_distance =
              experts.size() < 2 ? 0 : (experts[1].*which).matrix_scale - first.matrix_scale};
}

/// For the tiles of `list`.
inline Params params_of(const ExpertsArgs& args, const DispatchExtents& extents, const ExpertScratch& scratch,
                        const TileList& list) {
  const ExpertWeights& first = args.routed[0];
  using E = ExpertWeights;
  const std::span<const E> shared = args.shared != nullptr ? std::span(args.shared, 1) : std::span<const E>();
  const auto shared_matrix = [&](WeightMatrix E::*which) {
    return shared.empty() ? Matrix{} : describe(shared, which);
  };
  const std::int64_t shared_inner_width = shared.empty() ? first.w1.rows : args.shared->w1.rows;
  return {
      .tiles = list.tiles,
      .num_tiles = list.count,
      .routed = {describe(args.routed, &E::w1), describe(args.routed, &E::w3), describe(args.routed, &E::w2)},
      .shared = {shared_matrix(&E::w1), shared_matrix(&E::w3), shared_matrix(&E::w2)},
      .places = args.places.of_expert,
      .x = scratch.rows,
      .inner = scratch.inner,
      .row_weight = scratch.plan.row_weight,
      .y = scratch.y,
      .num_experts = static_cast<std::int32_t>(extents.num_experts),
      .width = static_cast<std::int32_t>(first.w1.cols),
      .inner_width = static_cast<std::int32_t>(first.w1.rows),
      .shared_inner_width = static_cast<std::int32_t>(shared_inner_width),
      .inner_pitch = static_cast<std::int32_t>(inner_pitch_of(args)),
      .swiglu_limit = args.swiglu_limit};
}

}  // namespace baleen::BALEEN_ARCH::dequantised
