#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/rope/cuda/device_angle.cuh"
#include "ops/rope/cuda/rope_angles.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 128;

struct AnglesParams {
  const float* frequencies;
  int num_pairs;
  DeviceBatch batch;
  float* cosine;
  float* sine;
  std::int64_t cosine_stride;
  std::int64_t sine_stride;
};

/// A thread an angle.
__global__ void __launch_bounds__(kThreads)
    rope_angles_kernel(const __grid_constant__ AnglesParams p, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = index / p.num_pairs;
  const auto pair = static_cast<int>(index % p.num_pairs);
  if (row >= p.batch.num_rows) return;
  const int position = max(0, p.batch.positions[row]);
  const CosineSine angle = rope_angle(p.frequencies[pair], position);
  p.cosine[row * p.cosine_stride + pair] = angle.cosine;
  p.sine[row * p.sine_stride + pair] = angle.sine;
}

}  // namespace

void rope_angles(const RopeAnglesArgs& args, CudaContext& context) {
  const auto num_pairs = static_cast<std::int64_t>(args.frequencies.size());
  const std::int64_t num_rows = args.cosine.extent(0);
  BALEEN_CHECK_EQ(num_rows, context.batch.num_rows);
  BALEEN_CHECK_EQ(args.cosine.extent(1), num_pairs);
  BALEEN_CHECK(args.sine.extents() == args.cosine.extents());
  const std::int64_t num_blocks = (num_rows * num_pairs + kThreads - 1) / kThreads;
  if (num_blocks == 0) return;
  launch_kernel("rope_angles", rope_angles_kernel,
                {.grid = dim3(static_cast<unsigned>(num_blocks)), .threads = kThreads}, context.stream,
                AnglesParams{.frequencies = args.frequencies.data(),
                             .num_pairs = static_cast<int>(num_pairs),
                             .batch = context.batch,
                             .cosine = args.cosine.data(),
                             .sine = args.sine.data(),
                             .cosine_stride = args.cosine.stride(0),
                             .sine_stride = args.sine.stride(0)});
}

}  // namespace baleen::BALEEN_ARCH
