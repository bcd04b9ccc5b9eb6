/// Products of 16 weight rows with up to eight columns of activations that have a scale per 32, by a warp
/// that streams the rows for itself; for groups_few.cu. Operands, their order in instructions of the tensor
/// cores and the order of slices are those of ops/experts/cuda/expert_dequantised.cuh, and so are the bits.
///
/// Lane 4 g + q has rows g and g + 8 and of every slice of 128 inputs [32 q, 32 q + 32). It copies what it
/// multiplies to a ring in shared memory of which it sees its own part only; scales alone, a word for a row
/// and slice, come by other lanes of the warp. Copies of the warp's next rows begin while the last stages of
/// these are multiplied, so memory does not pause between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/ptx/prefetch.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/expert_dequantised.cuh"

namespace baleen::sm90::groups_few {

using dequantised::Matrix;
using dequantised::RowReader;

inline constexpr int kHalfRows = 8;  ///< that one matrix, or one expert, has among a warp's
inline constexpr int kRows = 2 * kHalfRows;
inline constexpr int kMaxColumns = 8;

// A stage of the ring is 128 bytes of each row: one slice of FP8, two of FP4. Of scales there is a place more
// than of codes: what is copied over is then what all lanes have read.
inline constexpr int kRowStageBytes = 128;
inline constexpr int kStageBytes = kRows * kRowStageBytes;
inline constexpr int kStageScaleBytes = kRows * 2 * 4;
constexpr int ring_bytes(int num_stages) {
  return num_stages * kStageBytes + (num_stages + 1) * kStageScaleBytes;
}

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }

/// Columns of activations in shared memory as B operands: the pairs of inputs 32 q + 8 e to + 7 of a slice,
/// 16 bytes, at 4 e + q of the column's 16 places; of odd columns at 4 (e ^ 1) + q, in other banks.
class ColumnMemory {
 public:
  __device__ ColumnMemory(std::byte* memory, int num_columns)
      : pairs_(reinterpret_cast<uint4*>(memory)), num_columns_(num_columns) {}
  __host__ __device__ static constexpr int bytes(int num_slices, int num_columns) {
    return num_slices * num_columns * kPlaces * static_cast<int>(sizeof(uint4));
  }

  __device__ void store(int slice, int column, int eighth, int q, const std::uint32_t (&pairs)[4]) const {
    pairs_[(slice * num_columns_ + column) * kPlaces + 4 * (eighth ^ (column & 1)) + q] = {
        pairs[0], pairs[1], pairs[2], pairs[3]};
  }

  /// What a lane reads of a column, slice by slice.
  class Reader {
   public:
    __device__ Reader(const ColumnMemory& memory, int column) : step_(memory.num_columns_ * kPlaces) {
      const uint4* const own = memory.pairs_ + column * kPlaces + lane_index() % 4;
      even_ = own + 4 * (column & 1);
      odd_ = own + 4 * (1 - (column & 1));
    }
    [[nodiscard]] __device__ uint4 operator()(int eighth) const {
      return (eighth % 2 == 0 ? even_ : odd_)[8 * (eighth / 2)];
    }
    __device__ void step() {
      even_ += step_;
      odd_ += step_;
    }

   private:
    const uint4 *even_, *odd_;
    int step_;
  };

 private:
  static constexpr int kPlaces = 16;

  uint4* pairs_;
  int num_columns_;
};

/// Where eight rows of a matrix lie.
struct RowsPlace {
  const std::uint8_t* codes =
      nullptr;  ///< the first row's; null: there are none, and their products are not used
  const std::uint8_t* scales = nullptr;  ///< the first row's
};

template <WeightFormat kFormat>
constexpr int code_bytes(int num_inputs) {
  return kFormat == WeightFormat::kFp4 ? num_inputs / 2 : num_inputs;
}
/// From row to row; FP8 rows of a block of 32 share theirs, and eight rows lie in one.
template <WeightFormat kFormat>
constexpr int scale_bytes(int num_inputs) {
  return kFormat == WeightFormat::kFp4 ? num_inputs / 32 : 0;
}

/// Rows `row`, a multiple of eight, to `row` + 7 of the expert at `place`.
template <WeightFormat kFormat>
__device__ RowsPlace rows_of(const Matrix& matrix, int place, int row, int num_inputs) {
  const int scale_row = kFormat == WeightFormat::kFp4 ? row : row / 32;
  return {matrix.codes + place * matrix.code_distance + std::int64_t{row} * code_bytes<kFormat>(num_inputs),
          static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
              std::int64_t{scale_row} * (num_inputs / 32)};
}

/// A warp's items, 16 rows each: `rows_of_item`(i, half) says where rows 0 to 7, or 8 to 15, of item i of
/// `num_items` lie, which are the same for all lanes. Their copies begin with construction.
template <WeightFormat kFormat, int kStages, class RowsOfItem>
class RowStream {
 public:
  /// `ring`: ring_bytes(kStages) of shared memory, the warp's own.
  __device__ RowStream(std::byte* ring, int num_inputs, int num_items, const RowsOfItem& rows_of_item)
      : codes_ring_(reinterpret_cast<uint4*>(ring) + lane_index()),
        scales_ring_(reinterpret_cast<std::uint8_t*>(ring) + kStages * kStageBytes),
        rows_of_item_(rows_of_item),
        num_inputs_(num_inputs),
        num_items_(num_items) {
    open();
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) copy(stage);
  }

  /// Has the L2 ask for codes of all items, for memory that would be idle.
  __device__ void ask_for_all() const {
    for (int item = 0; item < num_items_; ++item) {
      for (int half = 0; half < 2; ++half) {
        const std::uint8_t* const codes = rows_of_item_(item, half).codes;
        const int bytes = codes == nullptr ? 0 : kHalfRows * code_bytes<kFormat>(num_inputs_);
        for (int at = lane_index() * ptx::kPrefetchBytes; at < bytes; at += kWarpLanes * ptx::kPrefetchBytes)
          ptx::prefetch_l2(codes + at);
      }
    }
  }

  /// acc[2 h + i]: of the next item, row g + 8 h times column 2 q + i of the eight, of which `column` is what
  /// lanes with this g read.
  __device__ void multiply(ColumnMemory::Reader column, float (&acc)[4]) {
    constexpr float kFactor = kFormat == WeightFormat::kFp4 ? 0x1p63F * 0x1p16F  // kFp4Shift, kTokenShift
                                                            : 0x1p16F;
    static_assert(dequantised::kFp4Shift == 63 && dequantised::kTokenShift == 16);
#pragma unroll
    for (float& value : acc) value = 0.0F;
    const int num_slices = num_inputs_ / kActivationGroup;
#pragma unroll 1
    for (int first = 0; first < num_slices; first += kSlices) {
      ptx::cp_async_wait<kStages - 1>();
      __syncwarp();
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        if (s > 0 && first + s >= num_slices) {
          copy(slot_);
          break;
        }
        Slice rows[2];
        load(s, 0, rows[0]);
        load(s, 1, rows[1]);
        if (s == kSlices - 1) copy(slot_);
        float sums[4] = {};
#pragma unroll
        for (int eighth = 0; eighth < 4; ++eighth) {
          std::uint32_t a[4], b[4];
          RowReader<kFormat>::dequantise(rows[0], eighth, nullptr, a);
          RowReader<kFormat>::dequantise(rows[1], eighth, nullptr, b);
          const uint4 x = column(eighth);
          ptx::mma_16x8x16(sums, a[0], b[0], a[1], b[1], x.x, x.y);
          ptx::mma_16x8x16(sums, a[2], b[2], a[3], b[3], x.z, x.w);
        }
        column.step();
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[i] = fmaf(sums[i], kFactor, acc[i]);
      }
      if (++slot_ == kStages) slot_ = 0;
      if (++scale_slot_ == kStages + 1) scale_slot_ = 0;
    }
  }

 private:
  using Slice = typename RowReader<kFormat>::Slice;
  static constexpr int kSlices = kFormat == WeightFormat::kFp4 ? 2 : 1;  ///< slices that a stage has
  static constexpr int kChunkBytes = 16;

  [[nodiscard]] __device__ uint4& chunk(int slot, int half, int j) const {
    return codes_ring_[((slot * 2 + half) * 2 + j) * kWarpLanes];
  }

  /// Part `s` of the stage in `slot_`, of row g or g + 8.
  __device__ void load(int s, int half, Slice& to) const {
    const int row = half * kHalfRows + lane_index() / 4;
    to.scale = scales_ring_[scale_slot_ * kStageScaleBytes + (row * 2 + s) * 4 + lane_index() % 4];
    if constexpr (kFormat == WeightFormat::kFp4) {
      to.codes = chunk(slot_, half, s);
    } else {
      to.codes[0] = chunk(slot_, half, 0);
      to.codes[1] = chunk(slot_, half, 1);
    }
  }

  /// Makes the next item the one of which stages are copied.
  __device__ void open() {
    ahead_slice_ = 0;
    if (ahead_item_ >= num_items_) return;
    const int g = lane_index() / 4, q = lane_index() % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowsPlace rows = rows_of_item_(ahead_item_, half);
      codes_[half] = rows.codes == nullptr ? nullptr
                                           : rows.codes + g * code_bytes<kFormat>(num_inputs_) +
                                                 q * (kSlices == 1 ? 2 * kChunkBytes : kChunkBytes);
      // A lane copies one word of scales: of FP4, row lane / 2 of the 16 and slice lane % 2 of the stage.
      if (lane_index() / (kWarpLanes / 2) == half) {
        const int row = lane_index() / 2 % kHalfRows;
        scales_ = rows.codes == nullptr
                      ? nullptr
                      : rows.scales + row * scale_bytes<kFormat>(num_inputs_) + lane_index() % 2 * 4;
      }
    }
  }

  /// The next stage to `slot`.
  __device__ void copy(int slot) {
    const int num_slices = num_inputs_ / kActivationGroup;
    if (ahead_item_ < num_items_) {
      const int stage = ahead_slice_ / kSlices;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (codes_[half] == nullptr) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (kSlices > 1 && ahead_slice_ + j >= num_slices) continue;
          ptx::cp_async_16(&chunk(slot, half, j),
                           codes_[half] + stage * kRowStageBytes + j * (kSlices == 1 ? 1 : 4) * kChunkBytes);
        }
      }
      const int own = lane_index() % 2;  // slice of the stage
      if (scales_ != nullptr && own < kSlices && ahead_slice_ + own < num_slices)
        ptx::cp_async_4(scales_ring_ + ahead_scale_slot_ * kStageScaleBytes + lane_index() * 4,
                        scales_ + ahead_slice_ * 4);
      if (++ahead_scale_slot_ == kStages + 1) ahead_scale_slot_ = 0;
      ahead_slice_ += kSlices;
      if (ahead_slice_ >= num_slices) {
        ++ahead_item_;
        open();
      }
    }
    ptx::cp_async_commit();
  }

  uint4* codes_ring_;
  std::uint8_t* scales_ring_;
  const RowsOfItem& rows_of_item_;
  int num_inputs_, num_items_;
  const std::uint8_t* codes_[2];  ///< this lane's, of the item that is copied
  const std::uint8_t* scales_ = nullptr;
  int ahead_item_ = 0, ahead_slice_ = 0, ahead_scale_slot_ = 0;
  int slot_ = 0, scale_slot_ = 0;
};

}  // namespace baleen::sm90::groups_few
