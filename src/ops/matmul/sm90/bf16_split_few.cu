// Products of up to eight tokens with so few outputs that tiles of eight take half of the chip at most:
// router gates. Their weights are on the chip before x is there, so what counts is what follows x.
//
// A block has eight outputs, a warp one segment of them. It copies its weights, waits for the kernel before
// this one, copies its part of x and multiplies by `mma.sync`, whose chains give the bits of `wgmma` in
// bf16_split; segments' sums meet in the block's shared memory. No warp waits for another one but there, and
// no block for another block.
#include "ops/matmul/sm90/bf16_split_few.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/mma_bf16.h"
#include "ops/matmul/sm90/bf16_kernel.cuh"

namespace baleen::sm90 {
namespace {

constexpr int kTileOutputs = 8;  // of the 16 that an instruction has
constexpr int kMaxTokens = 8;
constexpr int kThreads = kMaxSegments * kWarpThreads;
constexpr int kChunkBytes = 16;
constexpr int kChunksPerSlice = kSliceInputs * 2 / kChunkBytes;

struct FewProducts {
  Bf16Products work;
  const std::byte* x;
  std::int64_t x_row_bytes;
  const std::byte* weights[kMaxMatmulBf16Products];
};

/// A segment of a row in shared memory: an odd number of chunks from row to row, so that eight rows' chunks
/// at one place lie in different banks.
__host__ __device__ constexpr int row_bytes(int segment_slices) {
  return (segment_slices * kChunksPerSlice + 1) * kChunkBytes;
}
/// Sums, then for each segment rows of weights and of x.
using Sums = float[kMaxSegments][kMaxTokens][kTileOutputs];
constexpr int shared_bytes(int segment_slices, int num_rows) {
  return static_cast<int>(sizeof(Sums)) +
         kMaxSegments * (kTileOutputs + num_rows) * row_bytes(segment_slices);
}

/// Of a slice: a lane's words of eight rows, for two instructions each.
struct SliceWords {
  static constexpr int kPairs = kSliceInputs / (2 * kMmaInputs);
  std::uint32_t words[kPairs][4];

  /// `row`: this lane's row of the eight, its slice.
  __device__ void load(const std::byte* row) {
    const int chunk = static_cast<int>(threadIdx.x) % kWarpThreads / kGroupRows;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair)
      ptx::ldmatrix_x4(words[pair], row + (4 * pair + chunk) * kChunkBytes);
  }
};

__global__ void __launch_bounds__(kThreads)
    bf16_split_few_kernel(const __grid_constant__ FewProducts p, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  Sums& sums = *reinterpret_cast<Sums*>(dynamic);
  order.launch_next();
  const int thread = static_cast<int>(threadIdx.x), segment = thread / kWarpThreads,
            lane = thread % kWarpThreads;
  const int segment_slices = p.work.segment_slices, num_rows = p.work.num_rows;
  const int first_slice = segment * segment_slices,
            num_slices = max(0, min(segment_slices, p.work.num_slices - first_slice)),
            num_chunks = num_slices * kChunksPerSlice;
  const int tile = static_cast<int>(blockIdx.x);
  const Bf16Products::Product& product = product_of(p.work, tile);
  const int first_output = (tile - product.first_tile) * kTileOutputs;
  const int pitch = row_bytes(segment_slices);
  std::byte* const weights = dynamic + sizeof(Sums) + segment * (kTileOutputs + num_rows) * pitch;
  std::byte* const x = weights + kTileOutputs * pitch;
  const std::int64_t input_bytes = std::int64_t{first_slice} * kChunksPerSlice * kChunkBytes,
                     weight_row_bytes = std::int64_t{p.work.num_slices} * kChunksPerSlice * kChunkBytes;

  const std::byte* const from =
      p.weights[&product - p.work.products] + first_output * weight_row_bytes + input_bytes;
  for (int chunk = lane; chunk < num_chunks; chunk += kWarpThreads) {
#pragma unroll
    for (int row = 0; row < kTileOutputs; ++row) {
      ptx::cp_async_16(weights + row * pitch + chunk * kChunkBytes,
                       from + row * weight_row_bytes + chunk * kChunkBytes,
                       first_output + row < product.num_outputs);
    }
  }
  ptx::wait_for_previous_kernel();
  for (int token = 0; token < num_rows; ++token) {
    for (int chunk = lane; chunk < num_chunks; chunk += kWarpThreads) {
      ptx::cp_async_16(x + token * pitch + chunk * kChunkBytes,
                       p.x + token * p.x_row_bytes + input_bytes + chunk * kChunkBytes);
    }
  }
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  __syncwarp();

  float d[4] = {};
  const int row = lane % kGroupRows;
  const std::byte* weight_row = weights + row * pitch;
  const std::byte* x_row = x + min(row, num_rows - 1) * pitch;
  SliceWords a, b;
  if (num_slices > 0) a.load(weight_row), b.load(x_row);
  for (int slice = 0; slice < num_slices; ++slice) {
    SliceWords next_a = a, next_b = b;
    constexpr int kSliceBytes = kChunksPerSlice * kChunkBytes;
    if (slice + 1 < num_slices) {
      next_a.load(weight_row + (slice + 1) * kSliceBytes);
      next_b.load(x_row + (slice + 1) * kSliceBytes);
    }
#pragma unroll
    for (int pair = 0; pair < SliceWords::kPairs; ++pair) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        ptx::mma_16x8x16(d, a.words[pair][i], 0, a.words[pair][i + 1], 0, b.words[pair][i],
                         b.words[pair][i + 1]);
      }
    }
    a = next_a, b = next_b;
  }
  sums[segment][2 * (lane % 4)][lane / 4] = d[0];
  sums[segment][2 * (lane % 4) + 1][lane / 4] = d[1];
  __syncthreads();

  const int token = thread / kTileOutputs, output = first_output + thread % kTileOutputs;
  if (token >= num_rows || output >= product.num_outputs) return;
  const int num_segments = (p.work.num_slices + segment_slices - 1) / segment_slices;
  float sum = sums[0][token][thread % kTileOutputs];
#pragma unroll
  for (int other = 1; other < kMaxSegments; ++other) {
    if (other < num_segments) sum += sums[other][token][thread % kTileOutputs];
  }
  store_output(product, token, output, sum);
}

int segment_slices_of(const Bf16Work& work) {
  const auto num_slices = static_cast<int>(work.num_inputs / kSliceInputs);
  return (num_slices + kMaxSegments - 1) / kMaxSegments;
}

}  // namespace

bool are_few_for_split(const Bf16Work& work, int num_sms) {
  return work.num_rows <= kMaxTokens && 2 * shape_of(work).tiles_of(kTileOutputs) <= num_sms &&
         shared_bytes(segment_slices_of(work), static_cast<int>(work.num_rows)) <= kSharedBytes;
}

void bf16_split_few(const Bf16Work& work, CudaContext& context) {
  BALEEN_CHECK(work.num_segments == kMaxSegments && work.num_groups == 1);
  // Of the boxes the tile counts; nothing is loaded by them.
  FewProducts parameters{.work = make_products(work, {.tile_outputs = kTileOutputs,
                                                      .weight_bytes = kBoxRowBytes,
                                                      .weight_columns = 1,
                                                      .tokens = kMaxTokens,
                                                      .token_columns = 1}),
                         .x = work.x,
                         .x_row_bytes = work.row_stride * 2};
  for (std::size_t i = 0; i < work.outputs.size(); ++i) parameters.weights[i] = work.outputs[i].weight->data;
  launch_kernel(
      "multiplying few tokens in BF16", bf16_split_few_kernel,
      {.grid = dim3(static_cast<unsigned>(parameters.work.num_tiles)),
       .threads = kThreads,
       .shared_bytes = shared_bytes(parameters.work.segment_slices, static_cast<int>(work.num_rows))},
      context.stream, parameters);
}

}  // namespace baleen::sm90
