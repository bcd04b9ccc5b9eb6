/// FP4 rows in the stated order, 16 a *stage*: how they come to shared memory, and how instructions find them
/// there: as they lie in memory. A row's group of 32 codes is 16 bytes, of which the lanes of a quad have a
/// word each.
#pragma once

#include <cstdint>

#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/ldmatrix.h"
#include "ops/experts/cuda/expert_dequantised.cuh"
#include "ops/experts/cuda/stated_products.cuh"

namespace baleen::BALEEN_ARCH::stated {

using dequantised::Matrix;
using dequantised::Params;

inline constexpr int kStages = 16;    ///< that a block has, for 128 inner values or 256 outputs
inline constexpr int kTileRows = 16;  ///< weight rows of an instruction

/// Place of 16-byte piece `piece` of a row's slice: eight rows' pieces of one group lie in different banks.
__device__ constexpr int swizzled(int row, int piece) { return piece ^ (row >> 1 & 3); }

/// A slice of 16 rows.
struct WeightStage {
  alignas(16) std::uint8_t codes[kTileRows][kSliceBytes];
  std::uint32_t scales[kTileRows];
};

/// Where 16 rows lie, as the lanes of a warp copy them.
class WeightRows {
 public:
  /// Rows 0 to 7 are those of `first` from `first_row` on, rows 8 to 15 those of `second`; both have rows up
  /// to `last_row`, which stands in for those behind it.
  __device__ WeightRows(const Matrix& first, int first_row, const Matrix& second, int second_row,
                        int last_row, int place, int num_inputs)
      : num_slices_(num_inputs / kSliceWidth) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    const auto row_of = [&](int row) { return min((row < 8 ? first_row : second_row) + row % 8, last_row); };
    const auto matrix_of = [&](int row) -> const Matrix& { return row < 8 ? first : second; };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      codes_[half] = matrix_of(row).codes + place * matrix_of(row).code_distance +
                     std::int64_t{row_of(row)} * (num_inputs / 2) + lane % 4 * 16;
    }
    const int row = lane % kTileRows;
    scales_ = static_cast<const std::uint8_t*>(matrix_of(row).scales) +
              place * matrix_of(row).scale_distance + std::int64_t{row_of(row)} * (num_inputs / 32);
  }

  [[nodiscard]] __device__ int num_slices() const { return num_slices_; }

  /// By all lanes: begins to copy slice `slice`, which there is.
  __device__ void copy(int slice, WeightStage& stage) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      ptx::cp_async_16(&stage.codes[row][16 * swizzled(row, lane % 4)], codes_[half] + slice * kSliceBytes);
    }
    if (lane < kTileRows) ptx::cp_async_4(&stage.scales[lane], scales_ + slice * kSliceGroups);
  }

 private:
  const std::uint8_t* codes_[2];
  const std::uint8_t* scales_;
  int num_slices_;
};

/// The lane's codes of groups `first` and `first` + 1: rows g and g + 8 of the one, then of the other.
__device__ inline void load_codes(const WeightStage& stage, int first, std::uint32_t (&codes)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int row = lane % kTileRows, piece = first + lane / kTileRows;
  ptx::ldmatrix_x4(codes, &stage.codes[row][16 * swizzled(row, piece)]);
}

/// Behind the kernel that planned, past the first-level cache: also before the wait for the one before this.
__device__ inline TokenTile tile_at(const Params& p, int index) {
  const int4 tile = __ldcg(reinterpret_cast<const int4*>(p.tiles + index));
  return {tile.x, tile.y, tile.z, tile.w};
}
__device__ inline int place_of(const Params& p, const TokenTile& tile) {
  return p.places == nullptr ? tile.expert : __ldcg(p.places + tile.expert);
}

/// A block has a piece of a tile: 16 stages, whose rows are 8 of w1 and the same of w3, or 16 of w2. Stage
/// `number` of all of a tile's has these first inner values, or these outputs.
__device__ constexpr int first_inner(int number) { return number * dequantised::kWarpInner; }
__device__ constexpr int first_output(int number) { return number * dequantised::kWarpDown; }
/// Its rows.
__device__ inline WeightRows inner_rows(const Params& p, int place, int number) {
  const int first = first_inner(number);
  return {p.routed[0], first, p.routed[1], first, p.inner_width - 1, place, p.width};
}
__device__ inline WeightRows down_rows(const Params& p, int place, int number) {
  const int first = first_output(number);
  return {p.routed[2], first, p.routed[2], first + 8, p.width - 1, place, p.inner_width};
}

}  // namespace baleen::BALEEN_ARCH::stated
