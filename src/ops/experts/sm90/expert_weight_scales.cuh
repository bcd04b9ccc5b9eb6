/// Scales of weights in the products kernel: the warps that prepare them for the consumers of a large shape,
/// and how consumers take them.
#pragma once

#include "cuda/warp_reduce.cuh"
#include "ops/experts/sm90/expert_items.cuh"

namespace baleen::sm90 {

// Warps that prepare FP4 group scales for the consumers of a large shape: for each stage of the ring the
// place in the table of dequantised magnitudes of every row and group (expert_fragments.cuh). They know a
// row's largest scale before anybody multiplies it, and keep loads from device memory and the arithmetic on
// codes out of the consumers' way.

/// Largest byte of words that are added one by one.
class LargestByte {
 public:
  __device__ void add(std::uint32_t word) {
    // A pair of bytes is not below another whose upper byte is smaller.
    upper_ = __vmaxu2(upper_, word);
    lower_ = __vmaxu2(lower_, word << 8);
  }
  __device__ int value() const {
    const std::uint32_t pairs = __vmaxu2(upper_, lower_);
    return static_cast<int>(max(pairs >> 24, pairs >> 8 & 0xFFu));
  }

 private:
  std::uint32_t upper_ = 0;  ///< bytes 1 and 3
  std::uint32_t lower_ = 0;  ///< bytes 0 and 2
};

/// Bytes 8 * magnitude_table(scale, top) of four scales of a row, none of them above `top`.
__device__ inline std::uint32_t table_offsets(std::uint32_t scales, int top) {
  constexpr std::uint32_t kMax = static_cast<std::uint32_t>(kExactBinades) * 0x00010001u;
  const std::uint32_t below = static_cast<std::uint32_t>(top) * 0x01010101u - scales;
  const std::uint32_t even = __vminu2(below & 0x00FF00FFu, kMax);
  const std::uint32_t odd = __vminu2(below >> 8 & 0x00FF00FFu, kMax);
  constexpr std::uint32_t kTop = 0x01010101u * kExactBinades * sizeof(ScaledMagnitudes);
  return kTop - (even | odd << 8) * static_cast<std::uint32_t>(sizeof(ScaledMagnitudes));
}

/// One thread of them.
template <class Shape, bool kSplit>
class ScaleWriter {
 public:
  __device__ ScaleWriter(const ExpertProducts& p, ProductMemory<Shape>& memory)
      : p_(p),
        group_(memory.groups[0]),
        thread_(static_cast<int>(threadIdx.x) - Shape::kConsumers - Shape::kGroups * kWarpLanes) {
    static_assert(Shape::kGroups == 1);
  }

  template <WeightFormat kFormat>
  __device__ void produce(const ProductItem& item) {
    const int num_slices = (item.down ? inner_width_of<kSplit>(p_, item.tile) : p_.width) / kActivationGroup;
    if constexpr (kFormat == WeightFormat::kFp4) {
      write_offsets(item, num_slices);
    } else {
      for (int stage = 0; stage < num_slices; ++stage) {
        group_.ring.wait_empty(place_);
        hand_stage_on();
      }
    }
  }

 private:
  static constexpr int kThreads = Shape::kScaleWarps * kWarpLanes;
  static constexpr int kRows = 2 * Shape::kHalfRows;
  static constexpr int kRowsPerThread = (kRows + kThreads - 1) / kThreads;
  static constexpr int kSlices = kSlicesPerStage<WeightFormat::kFp4>;

  /// Of the item's rows; beyond the last one that again, with the same result.
  __device__ int row(int i) const { return min(thread_ + i * kThreads, kRows - 1); }

  __device__ void write_offsets(const ProductItem& item, int num_slices) {
    const std::uint32_t* words[kRowsPerThread];
    int tops[kRowsPerThread];
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const ItemMatrix half = item_matrix<Shape, kSplit>(p_, item, row(i) / Shape::kHalfRows);
      const int first_row = half.row < half.num_rows ? half.row : 0;  // a half is within the matrix or beyond
      words[i] =
          reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint8_t*>(half.matrix->scales) +
                                                 half.place * half.matrix->scale_distance) +
          static_cast<std::int64_t>(first_row + row(i) % Shape::kHalfRows) * num_slices;
    }
    std::uint32_t next[kRowsPerThread][kSlices];
    const auto load = [&](int stage) {
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
        for (int slice = 0; slice < kSlices; ++slice)
          next[i][slice] = words[i][min(stage * kSlices + slice, num_slices - 1)];
      }
    };
    load(0);
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) tops[i] = largest(words[i], num_slices);
    const int num_stages = (num_slices + kSlices - 1) / kSlices;
    for (int stage = 0; stage < num_stages; ++stage) {
      std::uint32_t offsets[kRowsPerThread][kSlices];
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
        for (int slice = 0; slice < kSlices; ++slice)
          offsets[i][slice] = table_offsets(next[i][slice], tops[i]);
      }
      load(stage + 1);
      group_.ring.wait_empty(place_);
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) {
        static_assert(kSlices == 2);
        *reinterpret_cast<uint2*>(group_.table_offsets[place_.stage][row(i)]) = {offsets[i][0],
                                                                                 offsets[i][1]};
        if (stage == 0) group_.tops[place_.stage][row(i)] = static_cast<std::uint8_t>(tops[i]);
      }
      hand_stage_on();
    }
  }

  __device__ static int largest(const std::uint32_t* words, int num_slices) {
    LargestByte result;
    if (num_slices % 4 == 0) {
#pragma unroll 4
      for (int slice = 0; slice < num_slices; slice += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(words + slice);
        result.add(four.x);
        result.add(four.y);
        result.add(four.z);
        result.add(four.w);
      }
    } else {
      for (int slice = 0; slice < num_slices; ++slice) result.add(words[slice]);
    }
    return result.value();
  }

  __device__ void hand_stage_on() {
    __syncwarp();
    if (thread_ % kWarpLanes == 0) group_.ring.fill(place_);
    place_.advance(Shape::kStages);
  }

  const ExpertProducts& p_;
  GroupMemory<Shape>& group_;
  int thread_;
  RingPlace place_;
};

// How consumers take them.

/// Scales of one thread's weight rows, row `first_row` + 32 b of half h in matrix [b][h].
template <class Shape, WeightFormat kFormat, bool kPrepared = (Shape::kScaleWarps > 0)>
class WeightScales;

/// FP4, prepared by scale warps.
template <class Shape>
class WeightScales<Shape, WeightFormat::kFp4, true> {
 public:
  __device__ WeightScales(const GroupMemory<Shape>& group, const ItemMatrix (&)[2], int row_in_half, int)
      : group_(group), row_in_half_(row_in_half) {}

  __device__ void reach(int slice, int slot) {
    if (slice != 0) return;
    tops_ = 0;
#pragma unroll
    for (int i = 0; i < 2 * Shape::kRowTiles; ++i)
      tops_ |= static_cast<std::uint32_t>(group_.tops[slot][row(i / 2, i % 2)]) << 8 * i;
  }
  __device__ ScaledMagnitudes table(const ScaledMagnitudes* tables, int row_tile, int half, int,
                                    int slice_in_stage, int slot) const {
    const int offset = group_.table_offsets[slot][row(row_tile, half)][4 * slice_in_stage + threadIdx.x % 4];
    return *reinterpret_cast<const ScaledMagnitudes*>(reinterpret_cast<const std::uint8_t*>(tables) + offset);
  }
  __device__ float row_factor(int row_tile, int half) const {
    return fp4_row_factor(static_cast<int>(tops_ >> 8 * (2 * row_tile + half) & 0xFFu));
  }

 private:
  __device__ int row(int row_tile, int half) const {
    return half * Shape::kHalfRows + row_in_half_ + row_tile * Shape::kTileHalfRows;
  }

  const GroupMemory<Shape>& group_;
  int row_in_half_;
  std::uint32_t tops_ = 0;  ///< the largest code of each row, a byte each
};

/// FP4: a code per row and 32 inputs. Each of the four threads that share up to four rows loads the codes of
/// one of them, kSlices slices at a time and as many ahead, and they hand each other what they need.
template <class Shape>
class WeightScales<Shape, WeightFormat::kFp4, false> {
 public:
  __device__ WeightScales(const GroupMemory<Shape>&, const ItemMatrix (&halves)[2], int row_in_half,
                          int num_slices)
      : num_slices_(num_slices) {
    const int own = threadIdx.x % 4;  // row 2 b + h: tile b, half h
    const ItemMatrix matrix = own % 2 == 0 ? halves[0] : halves[1];
    const int first_row =
        matrix.row < matrix.num_rows ? matrix.row : 0;  // a half is within the matrix or beyond
    const int row = first_row + row_in_half + own / 2 % Shape::kRowTiles * Shape::kTileHalfRows;
    words_ = reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint8_t*>(matrix.matrix->scales) +
                                                    matrix.place * matrix.matrix->scale_distance) +
             static_cast<std::int64_t>(row) * num_slices;
    load(0, now_);
    load(kSlices, ahead_);
    std::uint32_t largest = 0;
#pragma unroll 8
    for (int slice = 0; slice < num_slices; slice += kSlices) {
      std::uint32_t words[kSlices];
      load(slice, words);
#pragma unroll
      for (const std::uint32_t word : words) largest = __vmaxu4(largest, word);
    }
    largest = __vmaxu4(largest, largest >> 16);
    const std::uint32_t top = max(largest & 0xFFu, largest >> 8 & 0xFFu) << 8 * own;
    tops_ = top | __shfl_xor_sync(kAllLanes, top, 1);
    tops_ |= __shfl_xor_sync(kAllLanes, tops_, 2);
  }

  /// Before the tables of a slice; slices come in ascending order.
  __device__ void reach(int slice, int) {
    if (slice % kSlices != 0 || slice == 0) return;
#pragma unroll
    for (int i = 0; i < kSlices; ++i) now_[i] = ahead_[i];
    load(slice + kSlices, ahead_);
  }

  /// The table for this thread's group of slice `slice`; `slice_in_stage` is its last bit.
  __device__ ScaledMagnitudes table(const ScaledMagnitudes* tables, int row_tile, int half, int slice,
                                    int slice_in_stage, int) const {
    const std::uint32_t own = slice % kSlices < 2 ? now_[slice_in_stage] : now_[2 + slice_in_stage];
    const std::uint32_t word = __shfl_sync(kAllLanes, own, 2 * row_tile + half, 4);
    const int scale = static_cast<int>(word >> 8 * (threadIdx.x % 4) & 0xFFu);
    return tables[magnitude_table(scale, top(row_tile, half))];
  }

  /// What a row's sum is multiplied by at the end.
  __device__ float row_factor(int row_tile, int half) const { return fp4_row_factor(top(row_tile, half)); }

 private:
  static constexpr int kSlices = 4;  ///< a word each: four groups of 32

  __device__ int top(int row_tile, int half) const {
    return static_cast<int>(tops_ >> 8 * (2 * row_tile + half) & 0xFFu);
  }
  /// Words of slices [first, first + kSlices); beyond the last one any of the row's.
  __device__ void load(int first, std::uint32_t (&to)[kSlices]) const {
    if (num_slices_ % kSlices == 0) {
      const uint4 words = *reinterpret_cast<const uint4*>(words_ + min(first, num_slices_ - kSlices));
      to[0] = words.x;
      to[1] = words.y;
      to[2] = words.z;
      to[3] = words.w;
    } else {
#pragma unroll
      for (int i = 0; i < kSlices; ++i) to[i] = words_[min(first + i, num_slices_ - 1)];
    }
  }

  static_assert(2 * Shape::kRowTiles <= 4, "four threads share the rows, and tops_ has four bytes");
  const std::uint32_t* words_;  ///< scales of the row whose codes this thread loads
  std::uint32_t now_[kSlices];
  std::uint32_t ahead_[kSlices];
  std::uint32_t tops_;  ///< the largest code of each row, a byte each
  int num_slices_;
};

/// FP8: a factor per 128 x 128 weights, the same for all rows of a half.
template <class Shape, bool kPrepared>
class WeightScales<Shape, WeightFormat::kFp8, kPrepared> {
 public:
  __device__ WeightScales(const GroupMemory<Shape>&, const ItemMatrix (&halves)[2], int, int num_slices)
      : last_slice_(num_slices - 1) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(halves[half].row, halves[half].num_rows - 1);
      base_[half] = static_cast<const float*>(halves[half].matrix->scales) +
                    halves[half].place * halves[half].matrix->scale_distance +
                    static_cast<std::int64_t>(row / kActivationGroup) * num_slices;
      next_[half] = base_[half][0];
    }
  }
  /// Of slice `slice`, and starts the way to the next slice's.
  __device__ float2 factors(int slice) {
    const float2 result = {next_[0], next_[1]};
#pragma unroll
    for (int half = 0; half < 2; ++half) next_[half] = base_[half][min(slice + 1, last_slice_)];
    return result;
  }
  __device__ float row_factor(int, int) const { return 1.0F; }

 private:
  const float* base_[2];
  float next_[2];
  int last_slice_;
};

}  // namespace baleen::sm90
