// A thread has eight channels of a row, of all streams.

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/stream_mean/cuda/stream_mean.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr int kChannels = 8;  // of a thread

/// `out` begins at the first column that is written.
__global__ void stream_mean_kernel(const Bf16Bits* streams, Bf16Bits* out, std::int64_t out_stride,
                                   std::int64_t num_rows, int num_streams, int width, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int pieces = width / kChannels;
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = index / pieces;
  if (row >= num_rows) return;
  const std::int64_t channel = index % pieces * kChannels;
  float sums[kChannels] = {};
#pragma unroll 4
  for (int j = 0; j < num_streams; ++j) {
    float x[kChannels];
    unpack_bf16(*reinterpret_cast<const uint4*>(streams + (row * num_streams + j) * width + channel), x);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) sums[c] += x[c];
  }
  const float share = 1.0F / static_cast<float>(num_streams);
#pragma unroll
  for (float& sum : sums) sum *= share;
  *reinterpret_cast<uint4*>(out + row * out_stride + channel) = pack_bf16(sums);
}

}  // namespace

void stream_mean(const StreamMeanArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.streams.extent(0), width = args.streams.extent(2);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.streams.dense());
  BALEEN_CHECK_EQ(width % kChannels, 0);
  BALEEN_CHECK(args.first_column % kChannels == 0 && args.out.stride(0) % kChannels == 0);
  if (num_rows == 0) return;
  const std::int64_t blocks = (num_rows * (width / kChannels) + kThreads - 1) / kThreads;
  launch_kernel("stream_mean", stream_mean_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream,
                args.streams.bf16().data(), args.out.bf16().data() + args.first_column, args.out.stride(0),
                num_rows, static_cast<int>(args.streams.extent(1)), static_cast<int>(width));
}

}  // namespace baleen::BALEEN_ARCH
