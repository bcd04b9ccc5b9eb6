// A block has a token. It runs once a step, on the rows that get logits, so it is kept plain: products by
// FFMA, the streams read twice (the second time from L1).

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/hc_head/cuda/hc_head.h"
#include "ops/hc_pre/cuda/hc_gates.cuh"
#include "ops/rms_norm/cuda/inverse_rms.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kValues = 8;             // of a thread at a time
constexpr int kSums = kHcStreams + 1;  // products and squares

struct HcHeadKernelArgs {
  const std::uint16_t* streams;
  const float* fn;
  const float* base;
  const float* scale;
  const float* given;  ///< [T, 4] pre; null: made by the others
  float norm_eps;
  float hc_eps;
  std::uint16_t* y;
  std::int64_t y_stride;
  int width;
};

/// Adds the products of eight values with a row of fn.
__device__ float multiply(const float* fn, const float (&x)[kValues], float sum) {
  const float4 low = *reinterpret_cast<const float4*>(fn);
  const float4 high = *reinterpret_cast<const float4*>(fn + 4);
  const float weights[kValues] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int c = 0; c < kValues; ++c) sum = fmaf(weights[c], x[c], sum);
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    hc_head_kernel(const __grid_constant__ HcHeadKernelArgs args, NextAtOnce order) {
  __shared__ float warp_sums[kWarps][kSums];
  __shared__ float pre[kHcStreams];
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = blockIdx.x;
  const int num_inputs = kHcStreams * args.width;
  const std::uint16_t* const streams = args.streams + row * num_inputs;

  float sums[kSums] = {};
  const int num_products = args.given == nullptr ? num_inputs : 0;
#pragma unroll 4
  for (int i = kValues * thread; i < num_products; i += kValues * kThreads) {
    float x[kValues];
    unpack_bf16(*reinterpret_cast<const uint4*>(streams + i), x);
#pragma unroll
    for (int mix = 0; mix < kHcStreams; ++mix) {
      sums[mix] = multiply(args.fn + std::int64_t{mix} * num_inputs + i, x, sums[mix]);
    }
#pragma unroll
    for (const float value : x) sums[kHcStreams] = fmaf(value, value, sums[kHcStreams]);
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    sums[i] = warp_sum(sums[i]);
    if (thread % kWarpLanes == 0) warp_sums[thread / kWarpLanes][i] = sums[i];
  }
  __syncthreads();
  if (thread < kHcStreams) {
    float product = 0.0F, squares = 0.0F;
    for (int warp = 0; warp < kWarps; ++warp) {
      product += warp_sums[warp][thread];
      squares += warp_sums[warp][kHcStreams];
    }
    if (args.given != nullptr) {
      pre[thread] = __ldcg(args.given + row * kHcStreams + thread);
    } else {
      const float rho = inverse_rms(squares, num_inputs, args.norm_eps);
      pre[thread] = sigmoid(product * rho * args.scale[0] + args.base[thread]) + args.hc_eps;
    }
  }
  __syncthreads();

  for (int i = kValues * thread; i < args.width; i += kValues * kThreads) {
    float y[kValues] = {};
#pragma unroll
    for (int j = 0; j < kHcStreams; ++j) {
      float x[kValues];
      unpack_bf16(*reinterpret_cast<const uint4*>(streams + j * args.width + i), x);
#pragma unroll
      for (int c = 0; c < kValues; ++c) y[c] = fmaf(pre[j], x[c], y[c]);
    }
    *reinterpret_cast<uint4*>(args.y + row * args.y_stride + i) = pack_bf16(y);
  }
}

}  // namespace

void hc_head(const HcHeadArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.streams.extent(0), width = args.streams.extent(2);
  if (num_rows == 0) return;  // of no rows a given mixing is as empty as one that is not given
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(args.streams.extent(1), kHcStreams);
  BALEEN_CHECK_EQ(width % kValues, 0);
  const bool is_given = !args.given.empty();
  BALEEN_CHECK(args.streams.dense() && args.weights.fn.dense() && args.given.dense());
  BALEEN_CHECK(is_given ||
               (args.weights.fn.extent(0) == kHcStreams && args.weights.fn.extent(1) == kHcStreams * width));
  BALEEN_CHECK(args.y.extent(0) == num_rows && args.y.extent(1) == width && args.y.stride(0) % kValues == 0);
  launch_kernel(
      "hc_head", hc_head_kernel, {.grid = dim3(static_cast<unsigned>(num_rows)), .threads = kThreads},
      context.stream,
      HcHeadKernelArgs{args.streams.bf16().data(), args.weights.fn.data(), args.weights.base.data(),
                       args.weights.scale.data(), is_given ? args.given.f32().data() : nullptr, args.norm_eps,
                       args.hc_eps, args.y.bf16().data(), args.y.stride(0), static_cast<int>(width)});
}

}  // namespace baleen::BALEEN_ARCH
