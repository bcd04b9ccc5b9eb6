// FP8 products of many tokens before Hopper by tiles of several shapes, beside each other: the projections of
// a layer of Flash. All shapes have to give the same bits.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/support/cuda_bench.h"
#include "cuda/kernel_launch.h"
#include "ops/matmul/cuda/many_tokens.cuh"
#include "ops/operation/kernel_time.h"
#include "tests/support/test_cuda.h"

namespace baleen::sm80 {
namespace {

struct Product {
  const std::byte* weights;
  const float* block_scales;
  const std::byte* tokens;
  const float* token_scales;
  float* y;
  int num_outputs, num_tokens, num_slices;
};

__global__ void fill(std::uint8_t* codes, std::int64_t count, std::uint32_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const std::uint32_t bits = static_cast<std::uint32_t>(i) * 2654435761u + seed * 40503u;
    const std::uint32_t code = (bits ^ bits >> 15) * 2246822519u >> 24;
    codes[i] = static_cast<std::uint8_t>((code & 0x7Fu) == 0x7Fu ? 0 : code);
  }
}
__global__ void fill_ones(float* values, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    values[i] = 1.0F + static_cast<float>(i % 3);
}

/// Grid: tiles of outputs, eight side by side through all passes over tokens.
template <class Tile, int kBlocks>
__global__ void __launch_bounds__(Tile::kThreads, kBlocks) multiply(const __grid_constant__ Product p) {
  extern __shared__ __align__(16) std::byte dynamic[];
  constexpr int kTogether = 8;
  const int passes = (p.num_tokens + Tile::kTokens - 1) / Tile::kTokens;
  const int tiles = (p.num_outputs + Tile::kRows - 1) / Tile::kRows, block = static_cast<int>(blockIdx.x);
  const int first_tile = block / (kTogether * passes) * kTogether,
            together = min(kTogether, tiles - first_tile);
  const int in_group = block - first_tile * passes;
  const int first_output = (first_tile + in_group % together) * Tile::kRows;
  const int first_token = in_group / together * Tile::kTokens;
  ManyTokensWork<WeightFormat::kFp8> work{};
  work.row_bytes = std::int64_t{p.num_slices} * kSliceWidth;
  work.rows = p.weights + first_output * work.row_bytes;
  work.block_scales[0] = p.block_scales + first_output / kSliceWidth * p.num_slices;
  work.num_rows = min(Tile::kRows, p.num_outputs - first_output);
  work.tokens = p.tokens + first_token * work.row_bytes;
  work.token_bytes = work.row_bytes;
  work.token_scales = p.token_scales + first_token;
  work.scale_stride = p.num_tokens;
  work.num_tokens = min(Tile::kTokens, p.num_tokens - first_token);
  work.num_slices = p.num_slices;
  ManyTokens<WeightFormat::kFp8, true, Tile> products(work,
                                                      *reinterpret_cast<ManyTokensShared<Tile>*>(dynamic));
  ManyTokensSums<Tile> sums = {};
  products.multiply(sums);
  products.finish(sums, [&](int token, int row, const float4(&values)[Tile::kRowTiles]) {
    auto* const y = reinterpret_cast<float4*>(p.y + std::int64_t{first_token + token} * p.num_outputs +
                                              first_output + row);
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) y[i] = values[i];
  });
}

template <class Tile, int kBlocks>
void launch(const Product& p, test::TestCuda& cuda) {
  launch_kernel("multiplying", multiply<Tile, kBlocks>,
                {.grid = dim3(static_cast<unsigned>(pieces_of(p.num_outputs, Tile::kRows) *
                                                    pieces_of(p.num_tokens, Tile::kTokens))),
                 .threads = Tile::kThreads,
                 .shared_bytes = sizeof(ManyTokensShared<Tile>)},
                cuda.context().stream, p);
}

struct Shape {
  std::string name;
  void (*launch)(const Product& p, test::TestCuda& cuda);
};

void run(const std::string& name, int num_inputs, int num_outputs, int num_tokens) {
  const std::vector<Shape> shapes{{"8 warps of 32 x 64", launch<ManyTile<8, 2, 8>, 1>},
                                  {"16 warps of 16 x 64", launch<ManyTile<16, 1, 8>, 1>},
                                  {"4 warps of 16 x 64", launch<ManyTile<4, 1, 8>, 2>}};
  test::TestCuda cuda;
  const std::int64_t weights = std::int64_t{num_inputs} * num_outputs,
                     x = std::int64_t{num_inputs} * num_tokens, y = std::int64_t{num_outputs} * num_tokens;
  auto* const codes = cuda.allocate<std::uint8_t>(weights + x);
  auto* const scales = cuda.allocate<float>(weights / 16384 + x / 128 + 256);
  cudaStream_t stream = cuda.context().stream;
  fill<<<1024, 256, 0, stream>>>(codes, weights + x, 7);
  fill_ones<<<64, 256, 0, stream>>>(scales, weights / 16384 + x / 128 + 256);
  const auto* const bytes = reinterpret_cast<const std::byte*>(codes);
  Product p{bytes,
            scales,
            bytes + weights,
            scales + weights / 16384 + 128,
            cuda.allocate<float>(y),
            num_outputs,
            num_tokens,
            num_inputs / kSliceWidth};
  std::vector<float> want;
  for (const Shape& shape : shapes) {
    const bench::Timing timing = bench::time_launches(stream, 1, [&](int) { shape.launch(p, cuda); });
    const std::vector<float> got = cuda.download(p.y, std::min<std::int64_t>(y, 1 << 22));
    if (want.empty()) want = got;
    bench::report(name + ", " + shape.name, fmt::format("T={}", num_tokens), timing,
                  static_cast<double>(weights + x + 4 * y), 2.0 * static_cast<double>(weights) * num_tokens,
                  got == want ? "" : "OTHER BITS");
  }
}

}  // namespace
}  // namespace baleen::sm80

int main() {
  for (const int num_tokens : {64, 512, 8192}) {
    baleen::sm80::run("wq_a and wkv", 4096, 1536, num_tokens);
    baleen::sm80::run("wq_b", 1024, 32768, num_tokens);
    baleen::sm80::run("wo_b", 8192, 4096, num_tokens);
  }
}
