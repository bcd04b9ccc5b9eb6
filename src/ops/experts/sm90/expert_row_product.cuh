/// Products of weight rows that each thread streams for itself, with at most eight columns of activations.
///
/// A warpgroup has 64 rows in two halves of 32: thread 4 g + q of warp w has row 8 w + g of both, of which it
/// copies and multiplies inputs [32 q, 32 q + 32) of every slice of 128 (expert_fragments.cuh). Copies go to
/// a ring in shared memory of which a thread sees its own part only, so no thread waits for another.
///
/// Columns of activations, `num_columns` of them, lie in shared memory without a swizzle: chunk c (16 bytes)
/// of slice s, column n at 16 (num_columns (8 s + c) + n). What is in unused columns does not matter.
#pragma once

#include <cstdint>

#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/sm90/expert_fragments.cuh"
#include "tensor/fp8_rows.h"

namespace baleen::sm90 {

inline constexpr int kProductColumns = 8;
inline constexpr int kPieceRows = 32;  ///< rows of a half
inline constexpr int kGroupThreads = 128;
inline constexpr int kChunkBytes = 16;
inline constexpr int kSliceChunks = kActivationGroup / kChunkBytes;

// A stage of the ring is 128 bytes of a row: one slice of FP8, two of FP4.
inline constexpr int kStageBytes = 128;
inline constexpr int kThreadStageChunks = 4;  ///< a quarter of a row, of two rows
inline constexpr int kGroupStageBytes = kGroupThreads * kThreadStageChunks * kChunkBytes;

/// Codes and scales of one matrix of every expert.
struct ExpertRows {
  const std::uint8_t* codes = nullptr;  ///< where place 0 has them
  const void* scales = nullptr;         ///< FP4: bytes per row and 32 inputs; FP8: floats per 128 x 128
  std::int64_t code_distance = 0;       ///< from place to place
  std::int64_t scale_distance = 0;      ///< elements from place to place
};

/// One row of the expert at a place. `valid` false: counts as zeros; the others name some row all the same.
struct WeightRow {
  const std::uint8_t* codes;
  const void* scales;  ///< where its first slice has them
  bool valid;
};

template <WeightFormat kFormat>
__device__ WeightRow expert_row(const ExpertRows& matrix, int place, int row, int num_inputs, bool valid) {
  const int num_slices = num_inputs / kActivationGroup;
  if constexpr (kFormat == WeightFormat::kFp4) {
    return {matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * (num_inputs / 2),
            static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
                static_cast<std::int64_t>(row) * (num_inputs / 32),
            valid};
  } else {
    return {matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * num_inputs,
            static_cast<const float*>(matrix.scales) + place * matrix.scale_distance +
                static_cast<std::int64_t>(row / kActivationGroup) * num_slices,
            valid};
  }
}

/// Scales of a thread's two rows.
template <WeightFormat kFormat>
class RowScales;

template <>
class RowScales<WeightFormat::kFp4> {
 public:
  __device__ void begin(const WeightRow (&rows)[2], int num_slices) {
    last_slice_ = num_slices - 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) words_[half] = static_cast<const std::uint32_t*>(rows[half].scales);
    load(0);
  }
  /// Looks for the rows' largest.
  __device__ void find_tops() {
    constexpr int kLanesOfRow = 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t largest = 0;
#pragma unroll 8
      for (int slice = threadIdx.x % kLanesOfRow; slice <= last_slice_; slice += kLanesOfRow) {
        largest = __vmaxu4(largest, words_[half][slice]);
      }
      largest = __vmaxu4(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = __vmaxu4(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      largest = __vmaxu4(largest, largest >> 16);
      tops_[half] = static_cast<int>(max(largest & 0xFFu, largest >> 8 & 0xFFu));
    }
  }
  /// The words of stage `stage`, and starts the way to the next one's.
  __device__ void reach(int stage) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int slice = 0; slice < 2; ++slice) now_[half][slice] = next_[half][slice];
    }
    load(stage + 1);
  }
  __device__ ScaledMagnitudes table(const ScaledMagnitudes* tables, int half, int slice_in_stage) const {
    const int scale = static_cast<int>(now_[half][slice_in_stage] >> 8 * (threadIdx.x % 4) & 0xFFu);
    return tables[magnitude_table(scale, tops_[half])];
  }
  __device__ float row_factor(int half) const { return fp4_row_factor(tops_[half]); }

 private:
  __device__ void load(int stage) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int slice = 0; slice < 2; ++slice)
        next_[half][slice] = words_[half][min(2 * stage + slice, last_slice_)];
    }
  }

  const std::uint32_t* words_[2];
  std::uint32_t now_[2][2];
  std::uint32_t next_[2][2];
  int tops_[2];
  int last_slice_;
};

template <>
class RowScales<WeightFormat::kFp8> {
 public:
  __device__ void begin(const WeightRow (&rows)[2], int num_slices) {
    last_slice_ = num_slices - 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      factors_[half] = static_cast<const float*>(rows[half].scales);
      next_[half] = factors_[half][0];
    }
  }
  __device__ void find_tops() {}
  __device__ void reach(int stage) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now_[half] = next_[half];
      next_[half] = factors_[half][min(stage + 1, last_slice_)];
    }
  }
  __device__ float factor(int half) const { return now_[half]; }
  __device__ float row_factor(int) const { return 1.0F; }

 private:
  const float* factors_[2];
  float now_[2];
  float next_[2];
  int last_slice_;
};

/// A thread's part of the product of its warpgroup's 64 rows.
template <WeightFormat kFormat, int kStages>
class RowProduct {
 public:
  /// `ring`: kGroupStageBytes * kStages of shared memory for the warpgroup.
  __device__ explicit RowProduct(std::uint8_t* ring)
      : ring_(reinterpret_cast<uint4*>(ring) + threadIdx.x % kGroupThreads), q_(threadIdx.x % 4) {}

  /// Starts the weights' way.
  __device__ void begin(const WeightRow (&rows)[2], int num_inputs) {
    num_slices_ = num_inputs / kActivationGroup;
    num_stages_ = (num_slices_ + kSlices - 1) / kSlices;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      codes_[half] = rows[half].codes + q_ * (kSlices == 1 ? 2 * kChunkBytes : kChunkBytes);
      valid_[half] = rows[half].valid;
    }
    for (int stage = 0; stage < kStages; ++stage) copy(stage, stage);
    scales_.begin(rows, num_slices_);
  }

  /// acc[2 half + i]: of this thread's row of that half, column 2 q + i of the eight from `columns` on.
  /// `column_scales(slice)`: the two columns'.
  template <class ColumnScales>
  __device__ void multiply(const ScaledMagnitudes* tables, const std::uint8_t* columns, int num_columns,
                           ColumnScales column_scales, float (&acc)[4]) {
    constexpr int kInstructions = 4;               // of two chunks, in a slice
    const int instruction_step = 2 * num_columns;  // in the descriptor's units, which are chunks
    const int slice_step = kSliceChunks * num_columns;
    scales_.find_tops();
#pragma unroll
    for (float& value : acc) value = 0.0F;
    const std::uint64_t first = ptx::wgmma_descriptor_unswizzled(columns, num_columns * kChunkBytes);
    int slot = 0;
#pragma unroll 1
    for (int stage = 0; stage < num_stages_; ++stage) {
      ptx::cp_async_wait<kStages - 1>();
      scales_.reach(stage);
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        WeightFragment fragment;
        float partial[4];
        load(tables, slot, slice, fragment);
        if (slice == kSlices - 1) copy(stage + kStages, slot);
        const std::uint64_t descriptor =
            first + static_cast<std::uint64_t>((stage * kSlices + slice) * slice_step);
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kInstructions; ++i) {
          ptx::wgmma_e4m3<kProductColumns>(partial, fragment.a[i], descriptor + i * instruction_step, i > 0);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        promote(partial, column_scales(stage * kSlices + slice), acc);
      }
      if (++slot == kStages) slot = 0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[i] *= scales_.row_factor(i / 2);
  }

 private:
  static constexpr int kSlices = kFormat == WeightFormat::kFp4 ? 2 : 1;  ///< slices that a stage has

  __device__ uint4& chunk(int slot, int half, int j) const {
    return ring_[((slot * 2 + half) * 2 + j) * kGroupThreads];
  }

  /// Stage `stage` of this thread's rows to `slot`: FP4, its chunk of either slice; FP8, both chunks of the
  /// slice.
  __device__ void copy(int stage, int slot) {
    if (stage < num_stages_) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const bool inside = kSlices == 1 || 2 * stage + j < num_slices_;
          ptx::cp_async_16(&chunk(slot, half, j),
                           codes_[half] + stage * kStageBytes + j * (kSlices == 1 ? 1 : 4) * kChunkBytes,
                           valid_[half] && inside);
        }
      }
    }
    ptx::cp_async_commit();
  }

  __device__ void load(const ScaledMagnitudes* tables, int slot, int slice, WeightFragment& to) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kFormat == WeightFormat::kFp4) {
        dequantise_fp4(chunk(slot, half, slice), scales_.table(tables, half, slice), half, to);
      } else {
        place_fp8(chunk(slot, half, 0), 0, half, to);
        place_fp8(chunk(slot, half, 1), 1, half, to);
      }
    }
  }

  __device__ void promote(float (&partial)[4], float2 s, float (&acc)[4]) const {
#pragma unroll
    for (float& value : partial) ptx::wgmma_hold(value);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float2 scale = s;
      if constexpr (kFormat == WeightFormat::kFp8) {
        scale.x *= scales_.factor(half);
        scale.y *= scales_.factor(half);
      }
      acc[2 * half] = fmaf(partial[2 * half], scale.x, acc[2 * half]);
      acc[2 * half + 1] = fmaf(partial[2 * half + 1], scale.y, acc[2 * half + 1]);
    }
  }

  uint4* ring_;
  int q_;
  const std::uint8_t* codes_[2];
  bool valid_[2];
  int num_slices_ = 0;
  int num_stages_ = 0;
  RowScales<kFormat> scales_;
};

}  // namespace baleen::sm90
