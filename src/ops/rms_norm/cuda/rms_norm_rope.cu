// A warp has a head. Its lanes have eight neighbouring values at a time, so the pairs that are rotated lie
// within a lane.

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/rotation.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/rms_norm/cuda/inverse_rms.cuh"
#include "ops/rms_norm/cuda/rms_norm.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kValues = 8;  // of a lane at a time
constexpr int kHeadsPerBlock = 8;
constexpr int kMaxPieces = 2;  // of eight values, of a lane
constexpr int kMaxWidth = kValues * kWarpLanes * kMaxPieces;

struct NormRopeArgs {
  const std::uint16_t* x;
  std::uint16_t* y;
  const float* cosine;
  const float* sine;
  float eps;
  float direction;         // of the rotation: 1 or -1
  std::int64_t num_heads;  // of all tokens
  int heads_per_token;
  int width;
  int num_pairs;
};

__device__ void rotate(float (&values)[kValues], const float* cosine, const float* sine, float direction) {
  const float4 c = *reinterpret_cast<const float4*>(cosine);
  const float4 s = *reinterpret_cast<const float4*>(sine);
  const float cosines[4] = {c.x, c.y, c.z, c.w}, sines[4] = {s.x, s.y, s.z, s.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    rotate_pair_fused(values[2 * i], values[2 * i + 1], cosines[i], direction * sines[i]);
  }
}

__global__ void __launch_bounds__(kHeadsPerBlock* kWarpLanes)
    rms_norm_rope_kernel(const __grid_constant__ NormRopeArgs args, NextBehindWait order) {
  // Now, and not before: compressors and the indexer may then read beside this kernel what is older than it.
  order.wait().launch_next();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const std::int64_t head =
      std::int64_t{blockIdx.x} * kHeadsPerBlock + static_cast<int>(threadIdx.x) / kWarpLanes;
  if (head >= args.num_heads) return;
  const std::int64_t token = head / args.heads_per_token;
  const int first_rotated = args.width - 2 * args.num_pairs;

  uint4 words[kMaxPieces] = {};
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    const int column = kValues * (lane + i * kWarpLanes);
    if (column < args.width) words[i] = *reinterpret_cast<const uint4*>(args.x + head * args.width + column);
  }
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    float values[kValues];
    unpack_bf16(words[i], values);
    sum += sum_of_rounded_squares(values);
  }
  const float inverse = inverse_rms_step_by_step(warp_sum(sum), args.width, args.eps);

#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    const int column = kValues * (lane + i * kWarpLanes);
    if (column >= args.width) break;
    float values[kValues];
    unpack_bf16(words[i], values);
#pragma unroll
    for (float& value : values) value *= inverse;
    uint4 rounded = pack_bf16(values);
    if (column >= first_rotated) {
      unpack_bf16(rounded, values);
      const std::int64_t pair = token * args.num_pairs + (column - first_rotated) / 2;
      rotate(values, args.cosine + pair, args.sine + pair, args.direction);
      rounded = pack_bf16(values);
    }
    *reinterpret_cast<uint4*>(args.y + head * args.width + column) = rounded;
  }
}

}  // namespace

void rms_norm_rope(const RmsNormArgs& norm, const RopeArgs& rotation, CudaContext& context) {
  const std::int64_t num_heads = norm.x.extent(0), width = norm.x.extent(1);
  const std::int64_t num_pairs = rotation.cosine.extent(1);
  BALEEN_CHECK(norm.precision == Precision::kReleased && rotation.precision == Precision::kReleased);
  BALEEN_CHECK(norm.weight.empty() && !norm.y_fp8);
  BALEEN_CHECK(norm.x.dense() && norm.y.dense() && rotation.cosine.dense() && rotation.sine.dense());
  BALEEN_CHECK(rotation.x.address() == norm.y.address() && rotation.x.extent(2) == width);
  BALEEN_CHECK_EQ(rotation.x.extent(0) * rotation.x.extent(1), num_heads);
  BALEEN_CHECK(width % kValues == 0 && width <= kMaxWidth);
  BALEEN_CHECK(2 * num_pairs % kValues == 0 && 2 * num_pairs <= width);
  if (num_heads == 0) return;
  const std::int64_t blocks = (num_heads + kHeadsPerBlock - 1) / kHeadsPerBlock;
  launch_kernel("rms_norm_rope", rms_norm_rope_kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kHeadsPerBlock * kWarpLanes},
                context.stream,
                NormRopeArgs{norm.x.bf16().data(), norm.y.bf16().data(), rotation.cosine.f32().data(),
                             rotation.sine.f32().data(), norm.eps, rotation.inverse ? -1.0F : 1.0F, num_heads,
                             static_cast<int>(rotation.x.extent(1)), static_cast<int>(width),
                             static_cast<int>(num_pairs)});
}

}  // namespace baleen::BALEEN_ARCH
