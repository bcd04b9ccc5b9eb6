// A thread has sixteen codes of a row, which share a scale: of V4.1's rows of 256, half a warp reads one.

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/engram/cuda/engram.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 128;
constexpr int kCodes = 16;  // of a thread
static_assert(kEngramScaleColumns % kCodes == 0);

struct EngramRows {
  const std::int64_t* rows;
  std::int64_t rows_stride;
  const std::uint8_t* codes;
  std::int64_t codes_stride;
  const std::uint8_t* scales;
  std::int64_t scales_stride;
  Bf16Bits* z;
  std::int64_t z_stride;
  std::int64_t num_rows;
  int num_hashes, width;
};

/// e8m0; its least, 2^-127, is subnormal in float32.
__device__ float scale_value(std::uint32_t code) {
  constexpr std::uint32_t kLeast = 0x00400000, kNaN = 0x7FC00000;
  return __uint_as_float(code == 255 ? kNaN : code == 0 ? kLeast : code << 23);
}

/// The e4m3 code in the lowest byte. Its exponents count from -7, those of float32 from -127.
__device__ float code_value(std::uint32_t code) {
  const std::uint32_t magnitude = code & 0x7F, sign = (code & 0x80) << 24;
  const float value = __uint_as_float(sign | magnitude << 20) * 0x1p120F;
  return magnitude == 0x7F ? __uint_as_float(0x7FC00000) : value;
}

__global__ void __launch_bounds__(kThreads)
    engram_lookup_kernel(const __grid_constant__ EngramRows args, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int pieces = args.width / kCodes;
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t entry = index / pieces;
  const int column = static_cast<int>(index % pieces) * kCodes;
  const std::int64_t row = entry / args.num_hashes;
  if (row >= args.num_rows) return;
  const int hash = static_cast<int>(entry % args.num_hashes);
  const std::int64_t from = args.rows[row * args.rows_stride + hash];
  const uint4 codes = *reinterpret_cast<const uint4*>(args.codes + from * args.codes_stride + column);
  const float scale =
      scale_value(args.scales[from * args.scales_stride + column / static_cast<int>(kEngramScaleColumns)]);
  const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  Bf16Bits* const to = args.z + row * args.z_stride + hash * args.width + column;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float values[kCodes / 2];
#pragma unroll
    for (int i = 0; i < kCodes / 2; ++i)
      values[i] = code_value(words[2 * half + i / 4] >> 8 * (i % 4) & 0xFF) * scale;
    *reinterpret_cast<uint4*>(to + half * kCodes / 2) = pack_bf16(values);
  }
}

}  // namespace

void engram_lookup(const EngramLookupArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.rows.extent(0), num_hashes = args.rows.extent(1);
  const std::int64_t width = args.codes.extent(1);
  BALEEN_CHECK(width % kCodes == 0 && args.codes.stride(0) % kCodes == 0 && args.z.stride(0) % kCodes == 0);
  if (num_rows == 0) return;
  const std::int64_t threads = num_rows * num_hashes * (width / kCodes);
  launch_kernel(
      "engram_lookup", engram_lookup_kernel,
      {.grid = dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), .threads = kThreads},
      context.stream,
      EngramRows{.rows = args.rows.data(),
                 .rows_stride = args.rows.stride(0),
                 .codes = args.codes.data(),
                 .codes_stride = args.codes.stride(0),
                 .scales = args.scales.data(),
                 .scales_stride = args.scales.stride(0),
                 .z = args.z.bf16().data(),
                 .z_stride = args.z.stride(0),
                 .num_rows = num_rows,
                 .num_hashes = static_cast<int>(num_hashes),
                 .width = static_cast<int>(width)});
}

}  // namespace baleen::BALEEN_ARCH
