#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/rope/sm90/rope.h"

namespace baleen::sm90 {
namespace {

constexpr int kThreads = 128;

struct RotationArgs {
  std::uint16_t* x;
  std::int64_t row_stride, head_stride;
  const float* cosine;
  const float* sine;
  float direction;  ///< 1, or -1 for the inverse
  int num_heads, first_rotated, num_pairs;
};

__device__ float value_of(std::uint16_t bits) { return __uint_as_float(std::uint32_t{bits} << 16); }

__device__ std::uint16_t rounded(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40U);  // NaN stays one
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

/// A block has a token; a thread takes pairs of its heads one after the other.
__global__ void __launch_bounds__(kThreads) rope_kernel(const __grid_constant__ RotationArgs args) {
  ptx::wait_for_previous_kernel();
  // Now, and not before: what is older than this kernel the next ones may read
  // (CompressorArgs::rows_are_settled).
  ptx::launch_next_kernel();
  const std::int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < args.num_heads * args.num_pairs; i += kThreads) {
    const int head = i / args.num_pairs, pair = i % args.num_pairs;
    std::uint16_t* const at =
        args.x + row * args.row_stride + head * args.head_stride + args.first_rotated + 2 * pair;
    const float a = value_of(at[0]), b = value_of(at[1]);
    const float cosine = args.cosine[row * args.num_pairs + pair],
                sine = args.direction * args.sine[row * args.num_pairs + pair];
    // No fused multiply-adds: both products are rounded before they are added.
    at[0] = rounded(__fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine)));
    at[1] = rounded(__fadd_rn(__fmul_rn(a, sine), __fmul_rn(b, cosine)));
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
  launch_kernel(
      "rope", rope_kernel, {.grid = dim3(static_cast<unsigned>(args.x.extent(0))), .threads = kThreads},
      context.stream,
      RotationArgs{args.x.bf16().data(), args.x.stride(0), args.x.stride(1), args.cosine.f32().data(),
                   args.sine.f32().data(), args.inverse ? -1.0F : 1.0F, static_cast<int>(args.x.extent(1)),
                   static_cast<int>(args.x.extent(2) - 2 * num_pairs), static_cast<int>(num_pairs)});
}

}  // namespace baleen::sm90
