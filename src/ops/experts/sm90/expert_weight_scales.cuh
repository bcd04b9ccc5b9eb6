/// Scales of weights as the consumers of the products kernel take them.
#pragma once

#include "cuda/warp_reduce.cuh"
#include "ops/experts/sm90/expert_pipeline.cuh"

namespace baleen::sm90 {

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
    for (int i = 0; i < 2 * Shape::kBlocks; ++i)
      tops_ |= static_cast<std::uint32_t>(group_.tops[slot][row(i / 2, i % 2)]) << 8 * i;
  }
  __device__ ScaledMagnitudes table(const ScaledMagnitudes* tables, int block, int half, int,
                                    int slice_in_stage, int slot) const {
    const int offset = group_.table_offsets[slot][row(block, half)][4 * slice_in_stage + threadIdx.x % 4];
    return *reinterpret_cast<const ScaledMagnitudes*>(reinterpret_cast<const std::uint8_t*>(tables) + offset);
  }
  __device__ float row_factor(int block, int half) const {
    return fp4_row_factor(static_cast<int>(tops_ >> 8 * (2 * block + half) & 0xFFu));
  }

 private:
  __device__ int row(int block, int half) const {
    return half * Shape::kHalfRows + row_in_half_ + block * Shape::kBlockRows;
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
    const int own = threadIdx.x % 4;  // row 2 b + h: block b, half h
    const ItemMatrix matrix = own % 2 == 0 ? halves[0] : halves[1];
    const int first_row =
        matrix.row < matrix.num_rows ? matrix.row : 0;  // a half is within the matrix or beyond
    const int row = first_row + row_in_half + own / 2 % Shape::kBlocks * Shape::kBlockRows;
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
  __device__ ScaledMagnitudes table(const ScaledMagnitudes* tables, int block, int half, int slice,
                                    int slice_in_stage, int) const {
    const std::uint32_t own = slice % kSlices < 2 ? now_[slice_in_stage] : now_[2 + slice_in_stage];
    const std::uint32_t word = __shfl_sync(kAllLanes, own, 2 * block + half, 4);
    const int scale = static_cast<int>(word >> 8 * (threadIdx.x % 4) & 0xFFu);
    return tables[magnitude_table(scale, top(block, half))];
  }

  /// What a row's sum is multiplied by at the end.
  __device__ float row_factor(int block, int half) const { return fp4_row_factor(top(block, half)); }

 private:
  static constexpr int kSlices = 4;  ///< a word each: four groups of 32

  __device__ int top(int block, int half) const {
    return static_cast<int>(tops_ >> 8 * (2 * block + half) & 0xFFu);
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

  static_assert(2 * Shape::kBlocks <= 4, "four threads share the rows, and tops_ has four bytes");
  const std::uint32_t* words_;  ///< of the row whose codes this thread loads
  std::uint32_t now_[kSlices];
  std::uint32_t ahead_[kSlices];
  std::uint32_t tops_;  ///< the largest code of each row, a byte each
  int num_slices_;
};

/// FP8: a factor per 128 x 128 block, the same for all rows of a half.
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
                    static_cast<std::int64_t>(row / kFp8RowBlock) * num_slices;
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
