// A thread has eight channels of a token, of all streams.

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/mtp_combine/cuda/mtp_combine.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr int kChannels = 8;  // of a thread

__global__ void mtp_combine_kernel(const std::uint16_t* embedded, std::uint16_t* streams,
                                   std::int64_t num_rows, int num_streams, int width, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int pieces = width / kChannels;
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = index / pieces;
  if (row >= num_rows) return;
  const std::int64_t channel = index % pieces * kChannels;
  float term[kChannels];
  unpack_bf16(*reinterpret_cast<const uint4*>(embedded + row * width + channel), term);
#pragma unroll 4
  for (int j = 0; j < num_streams; ++j) {
    std::uint16_t* const stream = streams + (row * num_streams + j) * width + channel;
    float x[kChannels];
    unpack_bf16(*reinterpret_cast<const uint4*>(stream), x);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) x[c] += term[c];
    *reinterpret_cast<uint4*>(stream) = pack_bf16(x);
  }
}

}  // namespace

void mtp_combine(const MtpCombineArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.streams.extent(0), width = args.streams.extent(2);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.embedded.dense() && args.streams.dense());
  BALEEN_CHECK_EQ(width % kChannels, 0);
  if (num_rows == 0) return;
  const std::int64_t blocks = (num_rows * (width / kChannels) + kThreads - 1) / kThreads;
  launch_kernel("mtp_combine", mtp_combine_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads}, context.stream,
                args.embedded.bf16().data(), args.streams.bf16().data(), num_rows,
                static_cast<int>(args.streams.extent(1)), static_cast<int>(width));
}

}  // namespace baleen::BALEEN_ARCH
