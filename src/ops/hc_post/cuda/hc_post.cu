// A thread has eight channels of a token, of all streams.

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/hc_post/cuda/hc_post.h"
#include "ops/hc_pre/cuda/hc_slices.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kStreams = kHcStreams;
constexpr int kThreads = 256;
constexpr int kChannels = 8;  // of a thread

__global__ void __launch_bounds__(kThreads)
    hc_post_kernel(const std::uint16_t* f, const float* post, const float* comb, std::uint16_t* streams,
                   std::int64_t num_rows, int width, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int pieces = width / kChannels;
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = index / pieces;
  if (row >= num_rows) return;
  const std::int64_t channel = index % pieces * kChannels;
  std::uint16_t* const x_row = streams + row * kStreams * width + channel;

  float x[kStreams][kChannels], f_values[kChannels];
#pragma unroll
  for (int j = 0; j < kStreams; ++j) unpack_bf16(*reinterpret_cast<const uint4*>(x_row + j * width), x[j]);
  unpack_bf16(*reinterpret_cast<const uint4*>(f + row * width + channel), f_values);
  const float4 post_row = *reinterpret_cast<const float4*>(post + row * kStreams);
  const float post_of[kStreams] = {post_row.x, post_row.y, post_row.z, post_row.w};
  float comb_of[kStreams][kStreams];  // [destination][source]
#pragma unroll
  for (int j = 0; j < kStreams; ++j) {
    const float4 comb_row = *reinterpret_cast<const float4*>(comb + (row * kStreams + j) * kStreams);
    comb_of[0][j] = comb_row.x, comb_of[1][j] = comb_row.y;
    comb_of[2][j] = comb_row.z, comb_of[3][j] = comb_row.w;
  }
#pragma unroll
  for (int k = 0; k < kStreams; ++k) {
    float sum[kChannels];
    leave_sublayer(post_of[k], comb_of[k], f_values, x, sum);
    *reinterpret_cast<uint4*>(x_row + k * width) = pack_bf16(sum);
  }
}

}  // namespace

void hc_post(const HcPostArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.streams.extent(0), width = args.streams.extent(2);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(args.streams.extent(1), kStreams);
  BALEEN_CHECK_EQ(width % kChannels, 0);
  BALEEN_CHECK(args.streams.dense() && args.f.dense() && args.post.dense() && args.comb.dense());
  if (num_rows == 0) return;
  const std::int64_t blocks = (num_rows * (width / kChannels) + kThreads - 1) / kThreads;
  launch_kernel("hc_post", hc_post_kernel, {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads},
                context.stream, args.f.bf16().data(), args.post.f32().data(), args.comb.f32().data(),
                args.streams.bf16().data(), num_rows, static_cast<int>(width));
}

}  // namespace baleen::BALEEN_ARCH
