// A block has a stream of a row, a thread eight channels of it at a time: of V4.1's 5,120 channels, once. The
// sums of the warps are added in the order of the warps.

#include <algorithm>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/engram/cuda/engram.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxWarps = kMaxThreads / kWarpLanes;
constexpr int kValues = 8;  // of a thread at a time

struct EngramStreams {
  const TokenId* tokens;
  TokenId image_token;
  const Bf16Bits* projected;
  std::int64_t projected_stride;
  const Bf16Bits* q_weight;
  const Bf16Bits* k_weight;
  Bf16Bits* streams;
  int num_streams, width;
  float eps;
};

/// Of a stream and its key.
struct FitSums {
  float product = 0, squares = 0, key_squares = 0;
};

/// The sums of all threads, the same bits in each.
__device__ FitSums over_block(const FitSums& own) {
  __shared__ FitSums of_warps[kMaxWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const FitSums sums{warp_sum(own.product), warp_sum(own.squares), warp_sum(own.key_squares)};
  if (threadIdx.x % kWarpLanes == 0) of_warps[warp] = sums;
  __syncthreads();
  FitSums all;
  for (int i = 0; i < static_cast<int>(blockDim.x) / kWarpLanes; ++i) {
    all.product += of_warps[i].product;
    all.squares += of_warps[i].squares;
    all.key_squares += of_warps[i].key_squares;
  }
  return all;
}

__device__ float inverse_rms(float squares, int width, float eps) {
  return 1.0F / sqrtf(squares / static_cast<float>(width) + eps);
}

/// `engram_gate` (ops/engram/engram.h).
__device__ float gate_of(float fit) {
  const float magnitude = fabsf(fit);
  const float root = sqrtf(magnitude < kLeastEngramFit ? kLeastEngramFit : magnitude);
  return 1.0F / (1.0F + expf(-copysignf(root, fit)));
}

__device__ void load(const Bf16Bits* from, float (&values)[kValues]) {
  unpack_bf16(*reinterpret_cast<const uint4*>(from), values);
}

__global__ void __launch_bounds__(kMaxThreads)
    engram_kernel(const __grid_constant__ EngramStreams args, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x / args.num_streams;
  const int stream = static_cast<int>(blockIdx.x % args.num_streams);
  if (args.tokens[row] == args.image_token) return;
  const int first = kValues * static_cast<int>(threadIdx.x), step = kValues * static_cast<int>(blockDim.x);
  const Bf16Bits* const projected = args.projected + row * args.projected_stride;
  const Bf16Bits* const key = projected + stream * args.width;
  const Bf16Bits* const value = projected + args.num_streams * args.width;
  Bf16Bits* const x = args.streams + std::int64_t{blockIdx.x} * args.width;
  FitSums sums;
  for (int i = first; i < args.width; i += step) {
    float of_x[kValues], of_key[kValues], q[kValues], k[kValues];
    load(x + i, of_x);
    load(key + i, of_key);
    load(args.q_weight + stream * args.width + i, q);
    load(args.k_weight + stream * args.width + i, k);
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      sums.product += of_x[c] * q[c] * k[c] * of_key[c];
      sums.squares += of_x[c] * of_x[c];
      sums.key_squares += of_key[c] * of_key[c];
    }
  }
  sums = over_block(sums);
  const float fit = sums.product * inverse_rms(sums.squares, args.width, args.eps) *
                    inverse_rms(sums.key_squares, args.width, args.eps) /
                    sqrtf(static_cast<float>(args.width));
  const float gate = gate_of(fit);
  for (int i = first; i < args.width; i += step) {
    float of_x[kValues], of_value[kValues];
    load(x + i, of_x);
    load(value + i, of_value);
#pragma unroll
    for (int c = 0; c < kValues; ++c) of_x[c] += gate * of_value[c];
    *reinterpret_cast<uint4*>(x + i) = pack_bf16(of_x);
  }
}

}  // namespace

void engram(const EngramArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.streams.extent(0), width = args.width();
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.streams.dense());
  BALEEN_CHECK(width % kValues == 0 && args.projected.stride(0) % kValues == 0);
  if (num_rows == 0) return;
  const std::int64_t wanted = (width / kValues + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
  launch_kernel("engram", engram_kernel,
                {.grid = dim3(static_cast<unsigned>(num_rows * args.num_streams())),
                 .threads = static_cast<int>(std::min<std::int64_t>(wanted, kMaxThreads))},
                context.stream,
                EngramStreams{.tokens = args.tokens.data(),
                              .image_token = args.image_token,
                              .projected = args.projected.bf16().data(),
                              .projected_stride = args.projected.stride(0),
                              .q_weight = args.q_weight.data(),
                              .k_weight = args.k_weight.data(),
                              .streams = args.streams.bf16().data(),
                              .num_streams = static_cast<int>(args.num_streams()),
                              .width = static_cast<int>(width),
                              .eps = args.eps});
}

}  // namespace baleen::BALEEN_ARCH
