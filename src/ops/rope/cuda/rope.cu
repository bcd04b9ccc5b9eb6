#include <algorithm>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/rotation.cuh"
#include "ops/rope/cuda/rope.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 8;  // that a multiprocessor has at a time, at least

struct RotationArgs {
  std::uint16_t* x;
  std::int64_t row_stride, head_stride;
  const float* cosine;
  const float* sine;
  float direction;  ///< 1, or -1 for the inverse
  int num_heads, first_rotated, num_pairs;
};

/// A block has a token, or a part of its pairs where tokens are few: a thread takes pairs of its heads one
/// after the other, each of which is a trip to memory.
__global__ void __launch_bounds__(kThreads)
    rope_kernel(const __grid_constant__ RotationArgs args, NextBehindWait order) {
  // Now, and not before: compressors and the indexer may then read beside this kernel what is older than it.
  order.wait().launch_next();
  const std::int64_t row = blockIdx.x;
  const int first = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  for (int i = first; i < args.num_heads * args.num_pairs; i += static_cast<int>(gridDim.y) * kThreads) {
    const int head = i / args.num_pairs, pair = i % args.num_pairs;
    std::uint16_t* const at =
        args.x + row * args.row_stride + head * args.head_stride + args.first_rotated + 2 * pair;
    float a = bf16_low(at[0]), b = bf16_low(at[1]);
    rotate_pair(a, b, args.cosine[row * args.num_pairs + pair],
                args.direction * args.sine[row * args.num_pairs + pair]);
    at[0] = bf16_bits(a);
    at[1] = bf16_bits(b);
  }
}

}  // namespace

void rope(const RopeArgs& args, CudaContext& context) {
  const std::int64_t num_pairs = args.cosine.extent(1);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.cosine.dense() && args.sine.dense());
  BALEEN_CHECK(args.cosine.extent(0) == args.x.extent(0) && args.sine.extents() == args.cosine.extents());
  BALEEN_CHECK_LE(2 * num_pairs, args.x.extent(2));
  if (args.x.empty()) return;
  const std::int64_t num_rows = args.x.extent(0), row_pairs = args.x.extent(1) * num_pairs;
  const std::int64_t most_parts = std::max<std::int64_t>(1, (row_pairs + kThreads - 1) / kThreads);
  const std::int64_t parts =
      std::clamp<std::int64_t>(kBlocksPerSm * context.num_sms / num_rows, 1, most_parts);
  launch_kernel(
      "rope", rope_kernel,
      {.grid = dim3(static_cast<unsigned>(num_rows), static_cast<unsigned>(parts)), .threads = kThreads},
      context.stream,
      RotationArgs{args.x.bf16().data(), args.x.stride(0), args.x.stride(1), args.cosine.f32().data(),
                   args.sine.f32().data(), args.inverse ? -1.0F : 1.0F, static_cast<int>(args.x.extent(1)),
                   static_cast<int>(args.x.extent(2) - 2 * num_pairs), static_cast<int>(num_pairs)});
}

}  // namespace baleen::BALEEN_ARCH
