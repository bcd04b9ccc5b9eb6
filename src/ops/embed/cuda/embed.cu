// A block has a token, a thread 16 bytes of its row at a time.

#include <algorithm>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/embed/cuda/embed.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kValues = 8;  // of a thread at a time

__global__ void embed_kernel(const TokenId* tokens, const Bf16Bits* table, Bf16Bits* out, int num_streams,
                             int width, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  const Bf16Bits* const from = table + std::int64_t{tokens[row]} * width;
  Bf16Bits* const to = out + row * num_streams * width;
  for (int i = kValues * static_cast<int>(threadIdx.x); i < width;
       i += kValues * static_cast<int>(blockDim.x)) {
    const uint4 values = *reinterpret_cast<const uint4*>(from + i);
    for (int j = 0; j < num_streams; ++j) *reinterpret_cast<uint4*>(to + j * width + i) = values;
  }
}

}  // namespace

void embed(const EmbedArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.out.extent(0), width = args.out.extent(2);
  BALEEN_CHECK(args.table.dense() && args.out.dense());
  BALEEN_CHECK(args.table.extent(1) == width && width % kValues == 0);
  BALEEN_CHECK_LE(args.first_row + num_rows, context.batch.num_rows);
  if (num_rows == 0) return;
  const int threads = std::min<int>(kMaxThreads, static_cast<int>(width) / kValues);
  launch_kernel("embed", embed_kernel, {.grid = dim3(static_cast<unsigned>(num_rows)), .threads = threads},
                context.stream, context.batch.tokens + args.first_row, args.table.data(),
                args.out.bf16().data(), static_cast<int>(args.out.extent(1)), static_cast<int>(width));
}

}  // namespace baleen::BALEEN_ARCH
