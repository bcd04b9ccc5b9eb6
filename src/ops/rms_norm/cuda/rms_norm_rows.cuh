/// Rows of rms_norm in the hands of a block, for the kernels that have some.
///
/// A row belongs to as few warps as can hold it, 16 values a lane, and shares its block with others if it is
/// short. The number of warps, hence the order of the sum, depends on the row's width alone.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/rms_norm/cuda/inverse_rms.cuh"
#include "ops/rms_norm/rms_norm.h"

namespace baleen::BALEEN_ARCH::rms_norm_rows {

inline constexpr int kValues = 8;  // of a thread at a time
inline constexpr int kPieces = 2;  // of eight values, of a thread
inline constexpr int kWarpWidth = kValues * kPieces * kWarpLanes;
inline constexpr int kMaxWarps = 32;  // of a row
inline constexpr int kFullBlock = 8;  // warps of a block, where a row has fewer
inline constexpr int kMaxWidth = kWarpWidth * kMaxWarps;

struct Rows {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const float* weight;  // null: stepwise rounding
  float eps;
  std::uint16_t* y;
  std::int64_t y_stride;
  Fp8Rows y_fp8;
  std::int64_t num_rows;
  int width;
  int row_warps;

  [[nodiscard]] int rows_per_block() const { return row_warps < kFullBlock ? kFullBlock / row_warps : 1; }
  [[nodiscard]] int block_threads() const { return rows_per_block() * row_warps * kWarpLanes; }
  [[nodiscard]] std::int64_t blocks() const { return (num_rows + rows_per_block() - 1) / rows_per_block(); }
};

/// Over the warps of a row, in a fixed order; every thread gets it.
__device__ inline float row_sum(float value, int row_warps) {
  value = warp_sum(value);
  if (row_warps == 1) return value;
  __shared__ float warp_sums[kMaxWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  if (threadIdx.x % kWarpLanes == 0) warp_sums[warp] = value;
  __syncthreads();
  const int first = warp / row_warps * row_warps;
  float sum = 0.0F;
  for (int i = 0; i < row_warps; ++i) sum += warp_sums[first + i];
  return sum;
}

/// By all threads of a block, `block` of those that have rows. Waits for the previous kernel.
__device__ inline void norm_rows(const Rows& args, std::int64_t block) {
  const int row_threads = args.row_warps * kWarpLanes;
  const int rows_per_block = static_cast<int>(blockDim.x) / row_threads;
  const std::int64_t row_here = block * rows_per_block + static_cast<int>(threadIdx.x) / row_threads;
  const bool exists = row_here < args.num_rows;
  const std::int64_t row = exists ? row_here : args.num_rows - 1;
  const int stride = kValues * row_threads;
  const int first = kValues * (static_cast<int>(threadIdx.x) % row_threads);
  const std::uint16_t* const x = args.x + row * args.x_stride;
  const bool step_by_step = args.weight == nullptr;

  float4 weight[kPieces][2] = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int column = first + i * stride;
    if (step_by_step || column >= args.width) continue;
    weight[i][0] = *reinterpret_cast<const float4*>(args.weight + column);
    weight[i][1] = *reinterpret_cast<const float4*>(args.weight + column + 4);
  }
  ptx::wait_for_previous_kernel();

  uint4 words[kPieces] = {};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int column = first + i * stride;
    if (column < args.width) words[i] = *reinterpret_cast<const uint4*>(x + column);
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    float values[kValues];
    unpack_bf16(words[i], values);
    if (step_by_step) {
      sum += sum_of_rounded_squares(values);
    } else {
#pragma unroll
      for (const float value : values) sum = fmaf(value, value, sum);
    }
  }
  sum = row_sum(sum, args.row_warps);
  const float inverse = step_by_step ? inverse_rms_step_by_step(sum, args.width, args.eps)
                                     : inverse_rms(sum, args.width, args.eps);

#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (i * stride >= args.width) break;
    const int column = first + i * stride;
    const bool valid = exists && column < args.width;
    float values[kValues];
    unpack_bf16(words[i], values);
#pragma unroll
    for (float& value : values) value *= inverse;
    if (!step_by_step) {
      const float4 low = weight[i][0], high = weight[i][1];
      const float weights[kValues] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int c = 0; c < kValues; ++c) values[c] *= weights[c];
    }
    const uint4 rounded = pack_bf16(values);
    if (valid) *reinterpret_cast<uint4*>(args.y + row * args.y_stride + column) = rounded;
    if (args.y_fp8.codes != nullptr) {
      unpack_bf16(rounded, values);
      const Fp8Piece<kValues> piece = quantise_fp8_group(values);
      if (valid) store_fp8_piece(args.y_fp8, row, args.width, column, piece);
    }
  }
}

/// What the arguments say, checked.
inline Rows rows_of(const RmsNormArgs& args) {
  const std::int64_t num_rows = args.x.extent(0), width = args.x.extent(1);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.y.extent(0) == num_rows && args.y.extent(1) == width);
  BALEEN_CHECK(width % kValues == 0 && width <= kMaxWidth);
  BALEEN_CHECK(args.x.stride(0) % kValues == 0 && args.y.stride(0) % kValues == 0);
  BALEEN_CHECK(args.weight.empty() || static_cast<std::int64_t>(args.weight.size()) == width);
  BALEEN_CHECK(!args.y_fp8 || width % kActivationGroup == 0);
  return {args.x.bf16().data(),
          args.x.stride(0),
          args.weight.empty() ? nullptr : args.weight.data(),
          args.eps,
          args.y.bf16().data(),
          args.y.stride(0),
          args.y_fp8,
          num_rows,
          static_cast<int>(width),
          static_cast<int>((width + kWarpWidth - 1) / kWarpWidth)};
}

}  // namespace baleen::BALEEN_ARCH::rms_norm_rows
