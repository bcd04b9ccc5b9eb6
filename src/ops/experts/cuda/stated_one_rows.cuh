/// Products of one token's activations with 16 weight rows at a time, by a warp; for stated_one.cu.
///
/// A *row block* is 16 rows of a routed expert in FP4 or of the shared one in FP8. Warps share it in parts of
/// some slices each; values of slices meet in shared memory, where the warp that completes the last part adds
/// them up in order.
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
#include "cuda/ptx/named_barrier.h"
#include "cuda/scale_group.cuh"
#include "ops/experts/cuda/stated_weights.cuh"

namespace baleen::BALEEN_ARCH::stated_one {

using namespace stated;
using SharedRow = dequantised::RowReader<WeightFormat::kFp8>;

inline constexpr int kWarps = 16, kThreads = kWarps * kWarpLanes;
inline constexpr int kRows = 16;        ///< rows of a row block
inline constexpr int kChunk = 4;        ///< slices of FP4 that a warp has under way
inline constexpr int kSharedAhead = 3;  ///< slices of FP8 that a warp has under way
/// Parts of a row block, of which a warp then has about as many bytes in either format.
inline constexpr int kRoutedParts = 2, kSharedParts = 4;
inline constexpr int kSlicePairs = 16;     ///< pieces of 16 bytes: a slice's inputs as BF16
inline constexpr int kEighths = 4;         ///< eight inputs of each group of a slice
inline constexpr int kDigitPairBytes = 8;  ///< a digit of eight inputs

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }

/// How a row block of so many slices is cut into parts.
struct PartCut {
  int num_slices, each;
  __host__ __device__ constexpr PartCut(int slices, int parts)
      : num_slices(slices), each(((slices + parts - 1) / parts + kChunk - 1) / kChunk * kChunk) {}
  [[nodiscard]] __host__ __device__ constexpr int count() const { return (num_slices + each - 1) / each; }
  [[nodiscard]] __device__ int begin(int part) const { return part * each; }
  [[nodiscard]] __device__ int end(int part) const { return min(num_slices, begin(part) + each); }
};

/// What dynamic shared memory has room for.
struct OneExtents {
  int num_columns;        ///< rows of activations of routed experts
  int num_slices;         ///< slices of one
  int num_shared_slices;  ///< slices of the shared expert's activations
  int num_row_blocks;

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
    pairs = reinterpret_cast<uint4*>(zeros_ + kZeroBytes);
    pair_scales = reinterpret_cast<float*>(pairs + extents.num_shared_slices * kSlicePairs);
    scales_ = pair_scales + extents.num_shared_slices;
    values_ = scales_ + extents.num_columns * extents.num_slices;
    done_ = reinterpret_cast<int*>(values_ + extents.num_row_blocks * kRows * extents.pitch());
  }
  static std::int64_t bytes(const OneExtents& extents) {
    const std::int64_t slices = std::int64_t{extents.num_columns} * extents.num_slices;
    return slices * (kDigitBytes + 4) + kZeroBytes +
           std::int64_t{extents.num_shared_slices} * (kSlicePairs * 16 + 4) +
           std::int64_t{extents.num_row_blocks} * (kRows * extents.pitch() + 1) * 4;
  }

  /// By all threads, before anything is read and behind no barrier of its own.
  __device__ void clear() const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kZeroBytes / 4) reinterpret_cast<std::uint32_t*>(zeros_)[thread] = 0;
    for (int i = thread; i < extents_.num_row_blocks; i += kThreads) done_[i] = 0;
  }

  /// [eighth][group][digit][8 inputs] of a slice of a column.
  [[nodiscard]] __device__ std::byte* digits(int column, int slice) const {
    return digits_ + (column * extents_.num_slices + slice) * kDigitBytes;
  }
  /// Stands in for digits of groups that are not a lane's; `digit`: 0 or 2, in other banks than theirs.
  [[nodiscard]] __device__ const std::byte* zeros(int digit) const {
    return zeros_ + (2 - digit) * kDigitPairBytes;
  }
  /// S * 2^-10 of a column's slices.
  [[nodiscard]] __device__ float* scales(int column) const { return scales_ + column * extents_.num_slices; }
  /// Values of slices of row `row` of a row block.
  [[nodiscard]] __device__ float* values(int row_block, int row) const {
    return values_ + (row_block * kRows + row) * extents_.pitch();
  }
  /// By a warp that has written values: whether all of the row block's `parts` are there now, for it to read.
  [[nodiscard]] __device__ bool completes(int row_block, int parts) const {
    __threadfence_block();
    __syncwarp();
    int before = 0;
    if (lane_index() == 0) before = atomicAdd(&done_[row_block], 1);
    before = __shfl_sync(kAllLanes, before, 0);
    __threadfence_block();
    return before + 1 == parts;
  }

  uint4* pairs;        ///< the shared expert's activations as BF16, in the order of `dequantised::Columns`
  float* pair_scales;  ///< S of its slices

 private:
  static constexpr int kZeroBytes = 512;

  std::byte *digits_, *zeros_;
  float *scales_, *values_;
  int* done_;
  OneExtents extents_;
};

/// By a warp: the digits of inputs 4 lane to 4 lane + 3 of a slice.
__device__ inline void store_digits(std::byte* slice, const std::uint32_t (&digits)[kDigits]) {
  const int lane = lane_index(), group = lane / 8, eighth = lane % 8 / 2, half = lane % 2;
  auto* const words = reinterpret_cast<std::uint32_t*>(slice);
#pragma unroll
  for (int digit = 0; digit < kDigits; ++digit)
    words[((eighth * kSliceGroups + group) * kDigits + digit) * 2 + half] = digits[digit];
}
/// By a warp: the inputs of its lanes' codes as BF16 pairs of the shared expert's slice.
__device__ inline void store_pairs(uint4* slice, std::uint32_t codes) {
  const int lane = lane_index(), eight = lane / 2;
  const std::uint32_t next = __shfl_down_sync(kAllLanes, codes, 1);
  std::uint32_t pairs[4];
  dequantised::dequantise_e4m3_words(codes, next, pairs);
  if (lane % 2 == 0) slice[eight % 4 * 4 + eight / 4] = {pairs[0], pairs[1], pairs[2], pairs[3]};
}

/// X of four values of a slice of which each lane has four, quantised as `quantise_fp8_group` does, without
/// codes in between; returns the slice's S * 2^-10, or NaN.
__device__ inline float quantise_to_integers(const float (&values)[4], std::int32_t (&x)[4]) {
  constexpr float kToInteger = 0x1p9F, kMagic = 0x1.8p23F;
  float amax = 0.0F;
#pragma unroll
  for (const float value : values) amax = fmaxf(amax, fabsf(value));
  const float scale = fp8_scale(warp_max(amax)), inverse = inverse_scale(scale);
  bool nan = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    nan |= isnan(values[i]);
    const float rounded = rounded_to_e4m3(values[i] * inverse);
    x[i] = __float_as_int(__fmaf_rn(rounded, kToInteger, kMagic)) - __float_as_int(kMagic);
  }
  return slice_scale(scale, __any_sync(kAllLanes, nan));
}

/// Where a lane reads the rows g and g + 8 of a row block in FP4: its group of slice 0, and the rows' scales.
struct RoutedRows {
  const std::uint8_t* codes[2];
  const std::uint8_t* scales[2];

  __device__ RoutedRows() = default;
  /// `first_row`: of the first eight rows; `second_row`: of the others.
  __device__ RoutedRows(const Matrix& first, int first_row, const Matrix& second, int second_row, int place,
                        int num_inputs) {
    const int g = lane_index() / 4, q = lane_index() % 4;
    const auto find = [&](const Matrix& matrix, std::int64_t row, int i) {
      codes[i] = matrix.codes + place * matrix.code_distance + row * (num_inputs / 2) + 16 * q;
      scales[i] = static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
                  row * (num_inputs / 32);
    };
    find(first, first_row + g, 0);
    find(second, second_row + g, 1);
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

/// Scales of kChunk slices of both rows, of which each lane of four has those of one slice.
struct RoutedScales {
  std::uint32_t words[2];

  __device__ void load(const RoutedRows& rows, int first_slice, int end) {
    static_assert(kChunk == 4);
    const int slice = min(first_slice + lane_index() % 4, end - 1);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      words[half] = __ldcg(reinterpret_cast<const std::uint32_t*>(rows.scales[half] + slice * kSliceGroups));
  }
  /// s of the lane's group in slice `i` of the chunk.
  [[nodiscard]] __device__ float scale(int half, int i) const {
    const std::uint32_t word = __shfl_sync(kAllLanes, words[half], i, kSliceGroups);
    return e8m0_value(word >> (8 * (lane_index() % 4)) & 0xFFu);
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

/// Of rows g and g + 8: lanes q = 0 and 1 of four get the former's slice, the others the latter's.
__device__ inline float multiply_slice(const RoutedSlice& weights, const float (&scales)[2],
                                       const RoutedColumn& column, int slice) {
  constexpr int kEighthBytes = kSliceGroups * kDigits * kDigitPairBytes;
  const std::byte *const lower = column.lower + slice * column.distance, *const upper =
                                                                             column.upper +
                                                                             slice * column.distance;
  std::int32_t low[4] = {}, high[4] = {};
#pragma unroll
  for (int i = 0; i < kEighths; ++i) {
    const auto word = [i](const uint4& codes) {
      return i == 0 ? codes.x : i == 1 ? codes.y : i == 2 ? codes.z : codes.w;
    };
    std::uint32_t a[4];
    twice_weights(word(weights.codes[0]), a[0], a[2]);
    twice_weights(word(weights.codes[1]), a[1], a[3]);
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
    products[half] = __fmul_rn(0.5F * __int2float_rn(sum), scales[half]);
  }
  const bool second = lane_index() % 4 >= 2;
  const float kept = second ? products[1] : products[0], sent = second ? products[0] : products[1];
  const float pair = __fadd_rn(kept, __shfl_xor_sync(kAllLanes, sent, 2));  // p0 + p2 or p1 + p3
  return __fadd_rn(pair, __shfl_xor_sync(kAllLanes, pair, 1));
}

/// By a warp: slices [begin, end) of a row block of the shared expert: their values, without scales.
/// `prepare()` is called once weights are under way.
template <class Prepare>
__device__ void multiply_shared_part(const SharedRow (&rows)[2], int begin, int end, int row_block,
                                     const OneMemory& memory, Prepare prepare) {
  const int g = lane_index() / 4, q = lane_index() % 4;
  SharedRow::Slice slices[kSharedAhead][2];
  const auto load = [&](int slice, int to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) slices[to][half] = rows[half].load(slice);
  };
#pragma unroll
  for (int i = 0; i < kSharedAhead; ++i)
    if (begin + i < end) load(begin + i, i);
  prepare();
  float* const values = memory.values(row_block, g + 8 * (q % 2));
#pragma unroll 1
  for (int first = begin; first < end; first += kSharedAhead) {
#pragma unroll
    for (int i = 0; i < kSharedAhead; ++i) {
      const int slice = first + i;
      if (slice >= end) break;
      float products[4] = {};
#pragma unroll
      for (int eighth = 0; eighth < kEighths; ++eighth) {
        std::uint32_t a[4], b[4];
        SharedRow::dequantise(slices[i][0], eighth, nullptr, a);
        SharedRow::dequantise(slices[i][1], eighth, nullptr, b);
        const uint4 x = memory.pairs[slice * kSlicePairs + 4 * eighth + q];
        ptx::mma_16x8x16(products, a[0], b[0], a[1], b[1], x.x, x.y);
        ptx::mma_16x8x16(products, a[2], b[2], a[3], b[3], x.z, x.w);
      }
      if (slice + kSharedAhead < end) load(slice + kSharedAhead, i);
      if (q < 2) values[slice] = q == 0 ? products[0] : products[2];
    }
  }
}

/// What a lane adds up of a row block that is complete: lane r < 16 row r. `factors`: of the row's slices.
__device__ inline float sum_of_shared(const OneMemory& memory, int row_block, int num_slices,
                                      const float* factors) {
  if (lane_index() >= kRows) return 0.0F;
  const float* const values = memory.values(row_block, lane_index());
  float sum = 0.0F;
#pragma unroll 8
  for (int i = 0; i < num_slices; ++i) sum = fmaf(values[i], memory.pair_scales[i] * factors[i], sum);
  return sum;
}
__device__ inline float sum_of_routed(const OneMemory& memory, int row_block, int num_slices, int column) {
  if (lane_index() >= kRows) return 0.0F;
  const float *const values = memory.values(row_block, lane_index()), *const scales = memory.scales(column);
  float sum = 0.0F;
#pragma unroll 8
  for (int i = 0; i < num_slices; ++i) sum = add_slice(values[i], scales[i], sum);
  return sum;
}

/// By a warp: task `task` of `blocks`, one of routed experts, and all that it then claims. `prepare()` is
/// called once weights are under way.
template <class Blocks, class Prepare>
__device__ void multiply_routed_parts(const Blocks& blocks, int task, const OneMemory& memory,
                                      Prepare prepare) {
  const PartCut cut = blocks.routed_cut();
  struct Chunk {
    int row_block, slice, end;
  };
  RoutedRows rows;
  Chunk next{-1, 0, 0};  // what is to be loaded; row block -1: nothing
  const auto open = [&](int number) {
    next.row_block = -1;
    if (number >= blocks.end()) return;
    const int part = (number - blocks.num_shared_tasks()) % cut.count();
    next = {blocks.num_shared() + (number - blocks.num_shared_tasks()) / cut.count(), cut.begin(part),
            cut.end(part)};
    rows = blocks.routed_rows(next.row_block);
  };
  RoutedSlice slices[kChunk];
  RoutedScales next_scales;
  const auto load = [&](int i) {
    if (next.row_block < 0) return;
    if (i == 0) next_scales.load(rows, next.slice, next.end);
    if (next.slice + i < next.end) slices[i].load(rows, next.slice + i);
  };
  open(task);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) load(i);
  prepare();
#pragma unroll 1
  while (next.row_block >= 0) {
    const Chunk now = next;
    const RoutedScales scales = next_scales;
    next.slice += kChunk;
    if (next.slice >= next.end) open(blocks.claim());
    const int column_of_block = blocks.column(now.row_block);
    const RoutedColumn column(memory, column_of_block);
    float* const values = memory.values(now.row_block, lane_index() / 4 + lane_index() % 4 / 2 * 8);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (now.slice + i < now.end) {
        const float of_rows[2] = {scales.scale(0, i), scales.scale(1, i)};
        const float value = multiply_slice(slices[i], of_rows, column, now.slice + i);
        if (lane_index() % 2 == 0) values[now.slice + i] = value;
      }
      load(i);
    }
    if (now.slice + kChunk < now.end || !memory.completes(now.row_block, cut.count())) continue;
    blocks.take(now.row_block, sum_of_routed(memory, now.row_block, cut.num_slices, column_of_block));
  }
}

/// By a warp, all of its block's tasks that it gets; those of the shared expert come first, its first is that
/// of its own number. `begin()` is called once, before anything is asked of `blocks` but what the shared
/// expert has; `prepare()` once weights are under way, and brings activations to shared memory.
template <class Blocks, class Begin, class Prepare>
__device__ void multiply_one(Blocks& blocks, const OneMemory& memory, Begin begin, Prepare prepare) {
  int task = warp_index();
  bool prepared = false;
  const auto prepare_once = [&] {
    if (!prepared) prepare();
    prepared = true;
  };
  const bool begins_shared = task < blocks.num_shared_tasks();
  if (!begins_shared) begin();
  const PartCut cut = blocks.shared_cut();
  while (task < blocks.num_shared_tasks()) {
    const int row_block = task / cut.count(), part = task % cut.count();
    const SharedRow rows[2] = {blocks.shared_row(row_block, 0), blocks.shared_row(row_block, 1)};
    multiply_shared_part(rows, cut.begin(part), cut.end(part), row_block, memory, [&] {
      if (!prepared) begin();
      prepare_once();
    });
    if (memory.completes(row_block, cut.count()))
      blocks.take_shared(row_block,
                         sum_of_shared(memory, row_block, cut.num_slices, blocks.shared_factors(row_block)));
    task = blocks.claim();
  }
  multiply_routed_parts(blocks, task, memory, prepare_once);
}

}  // namespace baleen::BALEEN_ARCH::stated_one
