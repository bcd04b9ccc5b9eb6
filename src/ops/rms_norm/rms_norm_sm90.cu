// A block has a row; a thread eight values, and as many again at a distance of the block's width. The block's width, hence
// the order of the sum, depends on the row's alone.

#include <algorithm>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/row_quantise.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/rms_norm/inverse_rms.cuh"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {
namespace {

constexpr int kValues = 8;  // of a thread at a time
constexpr int kMaxThreads = 512;
constexpr int kMaxPieces = 4;  // of eight values, of a thread
constexpr int kMaxWidth = kValues * kMaxThreads * kMaxPieces;

struct RmsNormKernelArgs {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const float* weight;  // null: stepwise rounding
  float eps;
  std::uint16_t* y;
  std::int64_t y_stride;
  Fp8Rows y_fp8;
  int width;
};

/// Over the block, in a fixed order; every thread gets it.
__device__ float block_sum(float value) {
  __shared__ float warp_sums[kMaxThreads / kWarpLanes];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  value = warp_sum(value);
  if (threadIdx.x % kWarpLanes == 0) warp_sums[warp] = value;
  __syncthreads();
  float sum = 0.0F;
  for (int i = 0; i < static_cast<int>(blockDim.x) / kWarpLanes; ++i) sum += warp_sums[i];
  return sum;
}

__global__ void __launch_bounds__(kMaxThreads)
    rms_norm_kernel(const __grid_constant__ RmsNormKernelArgs args) {
  ptx::launch_next_kernel();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  const int stride = kValues * static_cast<int>(blockDim.x);
  const int first = kValues * static_cast<int>(threadIdx.x);
  const std::uint16_t* const x = args.x + row * args.x_stride;
  const bool step_by_step = args.weight == nullptr;

  uint4 words[kMaxPieces] = {};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    const int column = first + i * stride;
    if (column < args.width) words[i] = *reinterpret_cast<const uint4*>(x + column);
  }
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    float values[kValues];
    unpack_bf16(words[i], values);
    if (step_by_step) {
      sum += sum_of_rounded_squares(values);
    } else {
#pragma unroll
      for (const float value : values) sum = fmaf(value, value, sum);
    }
  }
  sum = block_sum(sum);
  const float inverse = step_by_step ? inverse_rms_step_by_step(sum, args.width, args.eps)
                                     : inverse_rms(sum, args.width, args.eps);

#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    if (i * stride >= args.width) break;
    const int column = first + i * stride;
    const bool valid = column < args.width;
    float values[kValues];
    unpack_bf16(words[i], values);
#pragma unroll
    for (float& value : values) value *= inverse;
    if (!step_by_step && valid) {
      const float4 low = *reinterpret_cast<const float4*>(args.weight + column);
      const float4 high = *reinterpret_cast<const float4*>(args.weight + column + 4);
      const float weight[kValues] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int c = 0; c < kValues; ++c) values[c] *= weight[c];
    }
    const uint4 rounded = pack_bf16(values);
    if (valid) *reinterpret_cast<uint4*>(args.y + row * args.y_stride + column) = rounded;
    if (args.y_fp8.codes != nullptr) {
      unpack_bf16(rounded, values);
      const Fp8Piece<kValues> piece = quantise_fp8_block(values);
      if (valid) store_fp8_piece(args.y_fp8, row, args.width, column, piece);
    }
  }
}

}  // namespace

void rms_norm_sm90(const RmsNormArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.x.extent(0), width = args.x.extent(1);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.y.extent(0) == num_rows && args.y.extent(1) == width);
  BALEEN_CHECK(width % kValues == 0 && width <= kMaxWidth);
  BALEEN_CHECK(args.x.stride(0) % kValues == 0 && args.y.stride(0) % kValues == 0);
  BALEEN_CHECK(args.weight.empty() || static_cast<std::int64_t>(args.weight.size()) == width);
  BALEEN_CHECK(!args.y_fp8 || width % kFp8RowBlock == 0);
  if (num_rows == 0) return;
  const int pieces = static_cast<int>(width) / kValues;
  const int threads = std::min(kMaxThreads, (pieces + kWarpLanes - 1) / kWarpLanes * kWarpLanes);
  launch_kernel(
      "rms_norm", rms_norm_kernel, {.grid = dim3(static_cast<unsigned>(num_rows)), .threads = threads},
      context.stream,
      RmsNormKernelArgs{args.x.bf16().data(), args.x.stride(0),
                        args.weight.empty() ? nullptr : args.weight.data(), args.eps, args.y.bf16().data(),
                        args.y.stride(0), args.y_fp8, static_cast<int>(width)});
}

}  // namespace baleen
