#include "ops/linear/cuda/quantise_rows.h"

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  ///< values of a thread: 16 lanes share a group of 128

/// Values of a thread: of rows of `width`, `stride` apart.
struct RowVector {
  std::int64_t row, column;
  float values[kVector] = {};
  bool exists;

  __device__ RowVector(const __nv_bfloat16* x, std::int64_t stride, std::int64_t num_rows,
                       std::int64_t width) {
    const std::int64_t vector = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    row = vector * kVector / width;
    column = vector * kVector % width;
    exists = row < num_rows;
    if (exists) unpack_bf16(*reinterpret_cast<const uint4*>(x + row * stride + column), values);
  }
};

__global__ void __launch_bounds__(kThreads)
    quantise_rows_kernel(const __nv_bfloat16* x, std::int64_t stride, std::int64_t num_rows,
                         std::int64_t width, Fp8Rows rows, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const RowVector vector(x, stride, num_rows, width);
  const Fp8Piece<kVector> piece = quantise_fp8_group(vector.values);
  if (vector.exists) store_fp8_piece(rows, vector.row, width, vector.column, piece);
}

__global__ void __launch_bounds__(kThreads)
    round_rows_kernel(const __nv_bfloat16* x, std::int64_t stride, std::int64_t num_rows, std::int64_t width,
                      Bf16Bits* rounded, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const RowVector vector(x, stride, num_rows, width);
  const Fp8Piece<kVector> piece = quantise_fp8_group<kVector, kSmallActivationGroup>(vector.values);
  if (!vector.exists) return;
  std::uint32_t words[kVector / 2];
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    const auto codes = static_cast<__nv_fp8x2_storage_t>(piece.codes[i / 2] >> (i % 2 * 16));
    const float2 values = __half22float2(__nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3));
    words[i] = bf16_bits(values.x * piece.scale) | std::uint32_t{bf16_bits(values.y * piece.scale)} << 16;
  }
  *reinterpret_cast<uint4*>(rounded + vector.row * width + vector.column) = {words[0], words[1], words[2],
                                                                             words[3]};
}

template <class Kernel, class To>
void launch_by_vectors(const char* name, Kernel kernel, ConstActivations<2> x, To to, CudaContext& context) {
  const std::int64_t num_rows = x.extent(0), width = x.extent(1);
  const std::int64_t vectors = num_rows * (width / kVector);
  launch_kernel(
      name, kernel,
      {.grid = dim3(static_cast<unsigned>((vectors + kThreads - 1) / kThreads)), .threads = kThreads},
      context.stream, reinterpret_cast<const __nv_bfloat16*>(x.address()), x.stride(0), num_rows, width, to);
}

}  // namespace

void quantise_rows(ConstActivations<2> x, const Fp8Rows& rows, CudaContext& context) {
  launch_by_vectors("quantising rows", quantise_rows_kernel, x, rows, context);
}

void round_rows(ConstActivations<2> x, Bf16Bits* rounded, CudaContext& context) {
  launch_by_vectors("rounding rows", round_rows_kernel, x, rounded, context);
}

}  // namespace baleen::BALEEN_ARCH
