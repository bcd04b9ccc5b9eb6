/// Warps that prepare FP4 group scales for the consumers of a large shape: for each stage of the ring the
/// place in the table of dequantised magnitudes of every row and group (expert_fragments.cuh). They know a
/// row's largest scale before anybody multiplies it, and keep loads from device memory and the arithmetic on
/// codes out of the consumers' way.
#pragma once

#include "ops/experts/sm90/expert_pipeline.cuh"

namespace baleen::sm90 {

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
    const int num_slices = (item.down ? inner_width_of<kSplit>(p_, item.tile) : p_.width) / kFp8RowBlock;
    if constexpr (kFormat == WeightFormat::kFp4) {
      write_offsets(item, num_slices);
    } else {
      for (int stage = 0; stage < num_slices; ++stage) {
        wait_for_slot();
        hand_slot_on();
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
      wait_for_slot();
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) {
        static_assert(kSlices == 2);
        *reinterpret_cast<uint2*>(group_.table_offsets[position_.slot][row(i)]) = {offsets[i][0],
                                                                                   offsets[i][1]};
        if (stage == 0) group_.tops[position_.slot][row(i)] = static_cast<std::uint8_t>(tops[i]);
      }
      hand_slot_on();
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

  __device__ void wait_for_slot() { ptx::mbarrier_wait(&group_.empty[position_.slot], position_.parity ^ 1); }
  __device__ void hand_slot_on() {
    __syncwarp();
    if (thread_ % kWarpLanes == 0) ptx::mbarrier_arrive(&group_.full[position_.slot]);
    position_.advance();
  }

  const ExpertProducts& p_;
  GroupMemory<Shape>& group_;
  int thread_;
  RingPosition<Shape> position_;
};

}  // namespace baleen::sm90
