/// Products of one token's activations with 16 weight rows at a time, by a warp; for stated_one.cu.
///
/// A *row block* is 16 rows of a routed expert in FP4 or of the shared one in FP8. All slices of a block's
/// row blocks lie in one line, of which each warp has an equal piece, so that none waits for another before
/// the end. Values of slices go to shared memory; behind a barrier a thread for each row adds them up in
/// order.
///
/// FP4: lane 4 g + q loads group q of a slice of rows g and g + 8, 16 bytes each, as it lies in memory. An
/// instruction takes eight inputs of each of the four groups; columns 2 j and 2 j + 1 have digits 0 and 1 of
/// group j and zeros for the others, so that after four instructions lane 4 g + q has the sums of group q.
/// Digit 2 has four instructions more.
/// FP8: as in expert_dequantised.cuh, to the same bits; all columns are the token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/ptx/prefetch.h"
#include "cuda/scale_group.cuh"
#include "ops/experts/cuda/even_split.h"
#include "ops/experts/cuda/stated_weights.cuh"

namespace baleen::BALEEN_ARCH::stated_one {

using namespace stated;
using SharedRow = dequantised::RowReader<WeightFormat::kFp8>;

inline constexpr int kMaxThreads = 512;
inline constexpr int kRows = 16;           ///< rows of a row block
inline constexpr int kChunk = 4;           ///< slices of FP4 that a warp has under way in registers
inline constexpr int kAskedChunks = 16;    ///< a block has so many on their way to the L2
inline constexpr int kSharedAhead = 2;     ///< slices of FP8 that a warp has under way
inline constexpr int kSlicePairs = 16;     ///< pieces of 16 bytes: a slice's inputs as BF16
inline constexpr int kEighths = 4;         ///< eight inputs of each group of a slice
inline constexpr int kDigitPairBytes = 8;  ///< a digit of eight inputs
inline constexpr int kPieceValues = 8;     ///< activations of a slice that a lane quantises
inline constexpr int kPieceLanes = kSliceWidth / kPieceValues;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
/// By a shuffle, so that the compiler knows it to be the same in all lanes: branches by it need no votes.
__device__ inline int warp_index() {
  return __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpLanes, 0);
}

/// A power of two.
__device__ inline int num_warps() { return static_cast<int>(blockDim.x) / kWarpLanes; }

/// What a warp has of `count` things in a line.
struct WarpShare {
  int begin, end;
  __device__ WarpShare(int count, int warp) {
    const int shift = __ffs(num_warps()) - 1;
    begin = count * warp >> shift;
    end = count * (warp + 1) >> shift;
  }
};

/// What dynamic shared memory has room for.
struct OneExtents {
  int num_columns;        ///< rows of activations of routed experts
  int num_slices;         ///< slices of one
  int num_shared_slices;  ///< slices of the shared expert's activations
  int num_row_blocks;     ///< counts both kinds, the shared expert's first
  int num_shared_row_blocks;

  /// From row to row of slices' values: odd, so that rows lie in different banks.
  [[nodiscard]] __host__ __device__ int pitch() const {
    return (num_slices > num_shared_slices ? num_slices : num_shared_slices) | 1;
  }
};

class OneMemory {
 public:
  __device__ OneMemory(std::byte* memory, const OneExtents& extents) : extents_(extents) {
    digits_ = memory;
    zeros_ = digits_ + extents.num_columns * extents.num_slices * kDigitBytes;
    tables_ = reinterpret_cast<TwiceTables*>(zeros_ + kZeroBytes);
    pairs = reinterpret_cast<uint4*>(zeros_ + kZeroBytes + kTableBytes);
    pair_scales = reinterpret_cast<float*>(pairs + extents.num_shared_slices * kSlicePairs);
    factors_ = pair_scales + extents.num_shared_slices;
    scales_ = factors_ + 2 * extents.num_shared_row_blocks * extents.num_shared_slices;
    values_ = scales_ + extents.num_columns * extents.num_slices;
  }
  static std::int64_t bytes(const OneExtents& extents) {
    const std::int64_t slices = std::int64_t{extents.num_columns} * extents.num_slices;
    return slices * (kDigitBytes + 4) + kZeroBytes + kTableBytes +
           std::int64_t{extents.num_shared_slices} *
               (kSlicePairs * 16 + 4 + 8 * extents.num_shared_row_blocks) +
           std::int64_t{extents.num_row_blocks} * kRows * extents.pitch() * 4;
  }

  /// By all threads, before anything is read and behind no barrier of its own.
  __device__ void clear() const {
    for (unsigned i = threadIdx.x; i < kZeroBytes / 4; i += blockDim.x)
      reinterpret_cast<std::uint32_t*>(zeros_)[i] = 0;
    if (threadIdx.x < kWarpLanes) tables_[threadIdx.x] = {};
  }
  /// From memory, and each lane its own, so that the compiler keeps them in registers: what it knows, or
  /// knows to be the same in all lanes, it brings to a register anew for each use.
  [[nodiscard]] __device__ TwiceTables tables() const { return tables_[lane_index()]; }

  /// [eighth][group][digit][8 inputs] of a slice of a column. Behind the last one there are a chunk's bytes
  /// that may be read.
  [[nodiscard]] __device__ std::byte* digits(int column, int slice) const {
    return digits_ + (column * extents_.num_slices + slice) * kDigitBytes;
  }
  /// Stands in for a chunk of digits of groups that are not a lane's; `digit`: 0 or 2, in other banks than
  /// theirs.
  [[nodiscard]] __device__ const std::byte* zeros(int digit) const {
    return zeros_ + (2 - digit) * kDigitPairBytes;
  }
  /// S * 2^-10 of a column's slices.
  [[nodiscard]] __device__ float* scales(int column) const { return scales_ + column * extents_.num_slices; }
  /// Scales of the shared expert's weights in the slices of rows 0 to 7, or 8 to 15, of a row block.
  [[nodiscard]] __device__ float* factors(int row_block, int half) const {
    return factors_ + (2 * row_block + half) * extents_.num_shared_slices;
  }
  /// Values of slices of row `row` of a row block.
  [[nodiscard]] __device__ float* values(int row_block, int row) const {
    return values_ + (row_block * kRows + row) * extents_.pitch();
  }

  uint4* pairs;        ///< the shared expert's activations as BF16, in the order of `dequantised::Columns`
  float* pair_scales;  ///< S of its slices

 private:
  static constexpr int kZeroBytes = 512 + (kChunk - 1) * kDigitBytes;
  static constexpr int kTableBytes = kWarpLanes * static_cast<int>(sizeof(TwiceTables));

  std::byte *digits_, *zeros_;
  TwiceTables* tables_;
  float *factors_, *scales_, *values_;
  OneExtents extents_;
};

/// A lane's eight activations of a slice, rounded to e4m3: pairs (0, 4), (1, 5), (2, 6), (3, 7) as BF16,
/// where NaN counts as 480; the slice's scale, and whether one of its activations is NaN.
struct SlicePiece {
  std::uint32_t pairs[kPieceValues / 2];
  float scale;
  bool nan;
};

/// Whether it is so in a lane of the 16 that have the slice.
__device__ inline bool any_of_slice(bool own) {
  constexpr unsigned kLanes = (1u << kPieceLanes) - 1;
  return (__ballot_sync(kAllLanes, own) >> (lane_index() & kPieceLanes) & kLanes) != 0;
}
/// Of BF16 values, as `quantise_fp8_group` does.
__device__ inline SlicePiece quantised_piece(const uint4& words) {
  float values[kPieceValues];
  unpack_bf16(words, values);
  float amax = 0.0F;
  bool nan = false;
#pragma unroll
  for (const float value : values) {
    amax = fmaxf(amax, fabsf(value));
    nan |= isnan(value);
  }
  SlicePiece piece;
  piece.scale = fp8_scale(warp_max<kPieceLanes>(amax));
  piece.nan = any_of_slice(nan);
  const float inverse = inverse_scale(piece.scale);
#pragma unroll
  for (float& value : values) value *= inverse;
#if __CUDA_ARCH__ >= 890
  dequantised::dequantise_e4m3_words(to_e4m3x4(values[0], values[1], values[2], values[3]),
                                     to_e4m3x4(values[4], values[5], values[6], values[7]), piece.pairs);
#else
  constexpr float kNaN = 480.0F;
#pragma unroll
  for (float& value : values) value = isnan(value) ? kNaN : rounded_to_e4m3(value);
#pragma unroll
  for (int i = 0; i < kPieceValues / 2; ++i) piece.pairs[i] = pack_bf16(values[i], values[i + 4]);
#endif
  return piece;
}
/// Of codes.
__device__ inline SlicePiece piece_of_codes(const uint2& codes, float scale) {
  SlicePiece piece;
  dequantised::dequantise_e4m3_words(codes.x, codes.y, piece.pairs);
  piece.scale = scale;
  piece.nan = any_of_slice(has_nan(codes.x) || has_nan(codes.y));
  return piece;
}

/// The piece as digits in `slice`, with S * 2^-10, or NaN.
__device__ inline void store_digits(std::byte* slice, float* scale, const SlicePiece& piece) {
  constexpr float kToInteger = 0x1p9F, kMagic = 0x1.8p23F;
  std::int32_t x[2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto integer = [](float value) {
      return __float_as_int(__fmaf_rn(value, kToInteger, kMagic)) - __float_as_int(kMagic);
    };
    x[0][i] = integer(bf16_low(piece.pairs[i]));
    x[1][i] = integer(bf16_high(piece.pairs[i]));
  }
  std::uint32_t digits[2][kDigits];
  digits_of(x[0], digits[0]);
  digits_of(x[1], digits[1]);
  const int lane = lane_index() % kPieceLanes, group = lane / kEighths, eighth = lane % kEighths;
  auto* const to = reinterpret_cast<uint2*>(slice) + (eighth * kSliceGroups + group) * kDigits;
#pragma unroll
  for (int digit = 0; digit < kDigits; ++digit) to[digit] = {digits[0][digit], digits[1][digit]};
  if (lane == 0) *scale = slice_scale(piece.scale, piece.nan);
}
/// The piece as BF16 in the shared expert's slice, with S.
__device__ inline void store_pairs(uint4* slice, float* scale, const SlicePiece& piece) {
  const int lane = lane_index() % kPieceLanes;
  slice[lane % kEighths * 4 + lane / kEighths] = {piece.pairs[0], piece.pairs[1], piece.pairs[2],
                                                  piece.pairs[3]};
  if (lane == 0) *scale = piece.scale;
}

/// Where 16 rows of a routed expert lie: rows 0 to 7 of one matrix, or half of one, rows 8 to 15 of another.
struct RowPlace {
  const Matrix& first;
  const Matrix& second;
  int first_row, second_row, place, num_inputs;

  [[nodiscard]] __device__ const std::uint8_t* codes(int row) const {
    const Matrix& matrix = row < kRows / 2 ? first : second;
    return matrix.codes + place * matrix.code_distance + std::int64_t{row_of(row)} * (num_inputs / 2);
  }
  [[nodiscard]] __device__ const std::uint8_t* scales(int row) const {
    const Matrix& matrix = row < kRows / 2 ? first : second;
    return static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
           std::int64_t{row_of(row)} * (num_inputs / 32);
  }

 private:
  [[nodiscard]] __device__ int row_of(int row) const {
    return row < kRows / 2 ? first_row + row : second_row + row - kRows / 2;
  }
};

/// Where a lane reads the rows g and g + 8 of a row block in FP4: its group of slice 0, and the rows' scales.
struct RoutedRows {
  const std::uint8_t* codes[2];
  const std::uint8_t* scales[2];

  __device__ RoutedRows() = default;
  __device__ explicit RoutedRows(const RowPlace& rows) {
    const int g = lane_index() / 4, q = lane_index() % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      codes[half] = rows.codes(g + 8 * half) + 16 * q;
      scales[half] = rows.scales(g + 8 * half);
    }
  }
};

/// A lane's group of a slice of both rows.
struct RoutedSlice {
  uint4 codes[2];

  __device__ void load(const RoutedRows& rows, int slice) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      codes[half] = __ldcg(reinterpret_cast<const uint4*>(rows.codes[half] + slice * kSliceBytes));
  }
};

/// Scales of kChunk slices of both rows: of a slice the e8m0 codes of its four groups.
struct RoutedScales {
  std::uint32_t words[2][kChunk];

  template <bool kWhole>
  __device__ void load(const RoutedRows& rows, int slice, int num_slices) {
    static_assert(kChunk == 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* const from = rows.scales[half] + slice * kSliceGroups;
      if constexpr (kWhole) {
        const uint4 four = __ldcg(reinterpret_cast<const uint4*>(from));
        words[half][0] = four.x, words[half][1] = four.y, words[half][2] = four.z, words[half][3] = four.w;
      } else {
#pragma unroll
        for (int i = 0; i < kChunk; ++i)
          words[half][i] =
              __ldcg(reinterpret_cast<const std::uint32_t*>(from) + min(i, num_slices - 1 - slice));
      }
    }
  }
  /// s of the lane's group.
  __device__ void to_floats(float (&scales)[2][kChunk]) const {
    const unsigned q = threadIdx.x % 4;
    std::uint32_t all = 0, common = ~0u;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const std::uint32_t word = words[half][i];
        all |= word, common &= word;
        scales[half][i] = __uint_as_float(ptx::byte_permute(word, 0, q << 12 | 0x444u) >> 1);
      }
    }
    if (__all_sync(kAllLanes, are_moderate(all) && are_moderate(common))) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) scales[half][i] = e8m0_value(words[half][i] >> (8 * q) & 0xFFu);
    }
  }
};

/// Where a lane finds its digits of a column's slice 0: those of one group, of others zeros.
struct RoutedColumn {
  const std::byte *lower, *upper;
  int distance;  ///< from slice to slice

  __device__ RoutedColumn(const OneMemory& memory, int column) {
    const int n = lane_index() / 4, group = n / 2;
    const bool own = lane_index() % 4 == group;
    const std::byte* const digits = memory.digits(column, 0) + group * kDigits * kDigitPairBytes;
    lower = own ? digits + n % 2 * kDigitPairBytes : memory.zeros(0);
    upper = own ? digits + 2 * kDigitPairBytes : memory.zeros(2);
    distance = own ? kDigitBytes : 0;
  }
};

/// Of rows g and g + 8: lanes q = 0 and 1 of four get the former's slice, the others the latter's. `lower`,
/// `upper`: the lane's digits of the slice.
__device__ inline float multiply_slice(const RoutedSlice& weights, float first_scale, float second_scale,
                                       const std::byte* lower, const std::byte* upper,
                                       const TwiceTables& tables) {
  constexpr int kEighthBytes = kSliceGroups * kDigits * kDigitPairBytes;
  std::int32_t low[4] = {}, high[4] = {};
#pragma unroll
  for (int i = 0; i < kEighths; ++i) {
    const auto word = [i](const uint4& codes) {
      return i == 0 ? codes.x : i == 1 ? codes.y : i == 2 ? codes.z : codes.w;
    };
    std::uint32_t a[4];
    twice_weights(word(weights.codes[0]), a[0], a[2], tables);
    twice_weights(word(weights.codes[1]), a[1], a[3], tables);
    const uint2 x = *reinterpret_cast<const uint2*>(lower + i * kEighthBytes);
    const uint2 y = *reinterpret_cast<const uint2*>(upper + i * kEighthBytes);
    ptx::mma_16x8x32_s8(low, a, x.x, x.y, low);
    ptx::mma_16x8x32_s8(high, a, y.x, y.y, high);
  }
  float products[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Of 2 W: half of it is exact.
    const std::int32_t sum = (high[2 * half] * kDigitBase + low[2 * half + 1]) * kDigitBase + low[2 * half];
    products[half] = __fmul_rn(0.5F * __int2float_rn(sum), half == 0 ? first_scale : second_scale);
  }
  const bool second = lane_index() % 4 >= 2;
  const float kept = second ? products[1] : products[0], sent = second ? products[0] : products[1];
  const float pair = __fadd_rn(kept, __shfl_xor_sync(kAllLanes, sent, 2));  // p0 + p2 or p1 + p3
  return __fadd_rn(pair, __shfl_xor_sync(kAllLanes, pair, 1));
}

/// A warp's slices of the shared expert's row blocks. They are under way from construction on.
template <class Blocks>
class SharedPart {
 public:
  __device__ SharedPart(const Blocks& blocks, int num_slices, int warp)
      : blocks_(blocks), num_slices_(num_slices) {
    const WarpShare share(blocks.num_shared() * num_slices, warp);
    count_ = share.end - share.begin;
    if (count_ == 0) return;
    next_row_block_ = row_block_ = static_cast<int>(static_cast<unsigned>(share.begin) / num_slices);
    next_slice_ = slice_ = share.begin - row_block_ * num_slices;
#pragma unroll
    for (int i = 0; i < kSharedAhead; ++i)
      if (i < count_) load(i);
  }

  /// Their values, without scales; and the weights' scales.
  __device__ void multiply(const OneMemory& memory) {
#pragma unroll 1
    for (int first = 0; first < count_; first += kSharedAhead) {
#pragma unroll
      for (int i = 0; i < kSharedAhead; ++i) {
        if (first + i >= count_) break;
        multiply_one(memory, i);
        if (first + i + kSharedAhead < count_) load(i);
      }
    }
  }

 private:
  __device__ void load(int to) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      codes_[to][half] = blocks_.shared_row(next_row_block_, half, lane_index() / 4).load(next_slice_);
    // Asks for the slices behind those under way, as ChunksAhead does.
    if (lane_index() < kRows && next_slice_ + kSharedAhead < num_slices_)
      ptx::prefetch_l2(blocks_.shared_row(next_row_block_, lane_index() / 8, lane_index() % 8).codes +
                       (next_slice_ + kSharedAhead) * kSliceWidth);
    // Lanes 0 and 1 take care of the scales of rows 0 to 7 and 8 to 15.
    if (lane_index() < 2)
      factors_[to] = blocks_.shared_row(next_row_block_, lane_index(), 0).slice_factor(next_slice_);
    step(next_row_block_, next_slice_);
  }
  __device__ void multiply_one(const OneMemory& memory, int from) {
    const int g = lane_index() / 4, q = lane_index() % 4;
    float products[4] = {};
#pragma unroll
    for (int eighth = 0; eighth < kEighths; ++eighth) {
      std::uint32_t a[4], b[4];
      SharedRow::dequantise(codes_[from][0], eighth, nullptr, a);
      SharedRow::dequantise(codes_[from][1], eighth, nullptr, b);
      const uint4 x = memory.pairs[slice_ * kSlicePairs + 4 * eighth + q];
      ptx::mma_16x8x16(products, a[0], b[0], a[1], b[1], x.x, x.y);
      ptx::mma_16x8x16(products, a[2], b[2], a[3], b[3], x.z, x.w);
    }
    if (q < 2) memory.values(row_block_, g + 8 * q)[slice_] = q == 0 ? products[0] : products[2];
    if (lane_index() < 2) memory.factors(row_block_, lane_index())[slice_] = factors_[from];
    step(row_block_, slice_);
  }
  __device__ void step(int& row_block, int& slice) const {
    if (++slice < num_slices_) return;
    slice = 0;
    ++row_block;
  }

  const Blocks& blocks_;
  int num_slices_, count_ = 0;
  int row_block_ = 0, slice_ = 0, next_row_block_ = 0, next_slice_ = 0;
  SharedRow::Slice codes_[kSharedAhead][2];
  float factors_[kSharedAhead];
};

/// A warp's walk over chunks of the routed experts' row blocks.
template <class Blocks>
struct ChunkWalk {
  typename Blocks::Place place;
  int row_block, slice;

  __device__ ChunkWalk(const Blocks& blocks, int chunk, int num_chunks)
      : row_block(static_cast<int>(static_cast<unsigned>(chunk) / num_chunks)) {
    slice = (chunk - row_block * num_chunks) * kChunk;
    place = blocks.place(row_block);
  }
  /// Whether a row block begins.
  __device__ bool step(const Blocks& blocks, int num_slices) {
    slice += kChunk;
    if (slice < num_slices) return false;
    slice = 0;
    ++row_block;
    blocks.step(place);
    return true;
  }
};

/// Asks for the chunks of a walk, each line of the 16 rows once: the cache then has them when registers want
/// them.
template <class Blocks>
class ChunksAhead {
 public:
  __device__ explicit ChunksAhead(const ChunkWalk<Blocks>& walk) : walk_(walk) {}

  /// Once there is a chunk, and where a row block begins.
  __device__ void open(const Blocks& blocks) {
    const RowPlace rows = blocks.rows(walk_.place);
    const int row = lane_index() / 2;
    codes_ = rows.codes(row) + lane_index() % 2 * ptx::kPrefetchBytes;
    if (lane_index() % 2 == 0) ptx::prefetch_l2(rows.scales(row));
  }
  __device__ void ask() const { ptx::prefetch_l2(codes_ + walk_.slice * kSliceBytes); }
  __device__ void step(const Blocks& blocks, int num_slices) {
    if (walk_.step(blocks, num_slices)) open(blocks);
  }

 private:
  static_assert(kChunk * kSliceBytes == 2 * ptx::kPrefetchBytes);  // a row's: two lanes have it

  ChunkWalk<Blocks> walk_;
  const std::uint8_t* codes_ = nullptr;
};

/// By a warp: its chunks of the routed experts' row blocks. `prepare()` is called once weights are under way,
/// and brings activations to shared memory. `kWhole`: chunks are whole, and scales of each lie where 16 bytes
/// can be read.
template <bool kWhole, class Blocks, class Prepare>
__device__ void multiply_routed(const Blocks& blocks, int num_slices, int warp, const OneMemory& memory,
                                Prepare prepare) {
  const int num_chunks = (num_slices + kChunk - 1) / kChunk;
  const WarpShare share(blocks.num_routed() * num_chunks, warp);
  ChunkWalk<Blocks> next(blocks, share.begin, num_chunks);  // what is to be loaded
  ChunksAhead<Blocks> ahead(next);
  const auto ask = [&](int chunk) {
    if (chunk >= share.end) return;
    ahead.step(blocks, num_slices);
    ahead.ask();
  };
  const int num_asked = kAskedChunks / num_warps();
  RoutedRows rows;
  RoutedSlice slices[kChunk];
  RoutedScales next_scales;
  if (share.begin < share.end) {
    rows = RoutedRows(blocks.rows(next.place));
    next_scales.template load<kWhole>(rows, next.slice, num_slices);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      if (kWhole || next.slice + i < num_slices) slices[i].load(rows, next.slice + i);
    if constexpr (kWhole) {
      ahead.open(blocks);
      for (int i = 1; i <= num_asked; ++i) ask(share.begin + i);
    }
  }
  prepare();
  const TwiceTables tables = memory.tables();
#pragma unroll 1
  for (int chunk = share.begin; chunk < share.end; ++chunk) {
    const ChunkWalk<Blocks> now = next;
    float scales[2][kChunk];
    next_scales.to_floats(scales);
    const bool more = chunk + 1 < share.end;
    if (next.step(blocks, num_slices) && more) rows = RoutedRows(blocks.rows(next.place));
    if (more) next_scales.template load<kWhole>(rows, next.slice, num_slices);
    const RoutedColumn column(memory, Blocks::column(now.place));
    const std::byte* const lower = column.lower + now.slice * column.distance;
    const std::byte* const upper = column.upper + now.slice * column.distance;
    float* const values =
        memory.values(blocks.num_shared() + now.row_block, lane_index() / 4 + lane_index() % 4 / 2 * 8) +
        now.slice;
    float of_slices[kChunk];  // stored behind the last: no later read of shared memory then waits for a store
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      of_slices[i] = multiply_slice(slices[i], scales[0][i], scales[1][i], lower + i * kDigitBytes,
                                    upper + i * kDigitBytes, tables);
      if (more && (kWhole || next.slice + i < num_slices)) slices[i].load(rows, next.slice + i);
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      if (lane_index() % 2 == 0 && (kWhole || now.slice + i < num_slices)) values[i] = of_slices[i];
    if constexpr (kWhole) ask(chunk + 1 + num_asked);
  }
}

/// What a thread adds up: row `row` of a row block.
__device__ inline float sum_of_shared(const OneMemory& memory, int row_block, int row, int num_slices) {
  const float *const values = memory.values(row_block, row), *const factors =
                                                                 memory.factors(row_block, row / 8);
  float sum = 0.0F;
#pragma unroll 8
  for (int i = 0; i < num_slices; ++i) sum = fmaf(values[i], memory.pair_scales[i] * factors[i], sum);
  return sum;
}
__device__ inline float sum_of_routed(const OneMemory& memory, int row_block, int row, int num_slices,
                                      int column) {
  const float *const values = memory.values(row_block, row), *const scales = memory.scales(column);
  float sum = 0.0F;
#pragma unroll 8
  for (int i = 0; i < num_slices; ++i) sum = add_slice(values[i], scales[i], sum);
  return sum;
}

}  // namespace baleen::BALEEN_ARCH::stated_one
