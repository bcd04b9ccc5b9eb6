#include "ops/linear/cuda/quantise_rows.h"

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  ///< values of a thread: 16 lanes share a block

/// x: rows of `width` values, `stride` apart.
__global__ void __launch_bounds__(kThreads)
    quantise_rows_kernel(const __nv_bfloat16* x, std::int64_t stride, std::int64_t num_rows,
                         std::int64_t width, Fp8Rows rows, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t vector = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = vector * kVector / width;
  const std::int64_t column = vector * kVector % width;
  uint4 words{};
  if (row < num_rows) words = *reinterpret_cast<const uint4*>(x + row * stride + column);
  float values[kVector];
  unpack_bf16(words, values);
  const Fp8Piece<kVector> piece = quantise_fp8_group(values);
  if (row < num_rows) store_fp8_piece(rows, row, width, column, piece);
}

}  // namespace

void quantise_rows(ConstActivations<2> x, const Fp8Rows& rows, CudaContext& context) {
  const std::int64_t num_rows = x.extent(0), width = x.extent(1);
  const std::int64_t vectors = num_rows * (width / kVector);
  launch_kernel(
      "quantising rows", quantise_rows_kernel,
      {.grid = dim3(static_cast<unsigned>((vectors + kThreads - 1) / kThreads)), .threads = kThreads},
      context.stream, reinterpret_cast<const __nv_bfloat16*>(x.address()), x.stride(0), num_rows, width,
      rows);
}

}  // namespace baleen::BALEEN_ARCH
