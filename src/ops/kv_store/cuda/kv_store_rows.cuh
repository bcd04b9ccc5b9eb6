/// Rows of kv_store in the hands of a block, for the kernels that have some.
///
/// A warp a row. A lane holds pieces of eight neighbouring values, 256 apart: 16-byte loads of BF16, the 64
/// values of a scale in eight neighbouring lanes, the pairs of the rotation in one lane.
#pragma once

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/latent_rows.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/rotation.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/kv_store/kv_store.h"

namespace baleen::BALEEN_ARCH::kv_store_rows {

inline constexpr int kPiece = 8;                          // values of a 16-byte load
inline constexpr int kPieceStride = kPiece * kWarpLanes;  // from a lane's piece to its next
inline constexpr int kMaxPieces = 2;

struct Rows {
  const Bf16Bits* kv;
  std::int64_t kv_stride;
  const float* weight;
  int width;
  float eps;
  const float* cosine;
  const float* sine;
  std::int64_t cosine_stride;
  std::int64_t sine_stride;
  DeviceBatch batch;
  DeviceLatentPool window;
};

__device__ inline void load_floats(const float* from, float (&values)[kPiece]) {
  const float4 low = reinterpret_cast<const float4*>(from)[0];
  const float4 high = reinterpret_cast<const float4*>(from)[1];
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

/// By all threads of a block, `block` of those that have rows. Finds its row's place, which the step's batch
/// says, then waits for the previous kernel.
template <int kPieces>
__device__ inline void store_rows(const Rows& p, int block) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int row = (block * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) / kWarpLanes;
  float weight[kPieces][kPiece];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int column = i * kPieceStride + lane * kPiece;
    if (column < p.width) load_floats(p.weight + column, weight[i]);
  }
  const int position = row < p.batch.num_rows ? p.batch.positions[row] : -1;
  PageId page = PageId::kNone;
  if (position >= 0) {
    const DeviceSequence& sequence = p.batch.sequences[p.batch.sequence_of[row]];
    page = sequence.window_pages[position / p.window.rows_per_page];
  }
  const int row_of_page = position % p.window.rows_per_page;
  ptx::wait_for_previous_kernel();
  if (position < 0) return;

  uint4 words[kPieces] = {};
  float4 cosine[kPieces] = {}, sine[kPieces] = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int column = i * kPieceStride + lane * kPiece;
    if (column >= p.width) continue;
    words[i] = *reinterpret_cast<const uint4*>(p.kv + row * p.kv_stride + column);
    if (column < p.window.nope) continue;
    const int pair = (column - p.window.nope) / 2;
    cosine[i] = *reinterpret_cast<const float4*>(p.cosine + row * p.cosine_stride + pair);
    sine[i] = *reinterpret_cast<const float4*>(p.sine + row * p.sine_stride + pair);
  }

  float squares = 0.0F;
  float values[kPieces][kPiece];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    unpack_bf16(words[i], values[i]);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) squares = fmaf(values[i][j], values[i][j], squares);
  }
  squares = warp_sum(squares);
  const float inverse = 1.0F / sqrtf(squares / static_cast<float>(p.width) + p.eps);

#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int column = i * kPieceStride + lane * kPiece;
    const bool inside = column < p.width;
    if (inside) {
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        values[i][j] = rounded_to_bf16(weight[i][j] * values[i][j] * inverse);
      }
    }
    if (inside && column >= p.window.nope) {
      rotate_pair(values[i][0], values[i][1], cosine[i].x, sine[i].x);
      rotate_pair(values[i][2], values[i][3], cosine[i].y, sine[i].y);
      rotate_pair(values[i][4], values[i][5], cosine[i].z, sine[i].z);
      rotate_pair(values[i][6], values[i][7], cosine[i].w, sine[i].w);
      // Where rows have groups, codes are of BF16 values.
#pragma unroll
      for (float& value : values[i]) value = rounded_to_bf16(value);
    }
    store_latent_values(p.window, page, row_of_page, column, values[i], inside);
  }
}

/// What the arguments say, checked.
inline Rows rows_of(const KvStoreArgs& args, const CudaContext& context) {
  const LatentFormat& format = args.window.format;
  BALEEN_CHECK_EQ(args.kv.extent(0), context.batch.num_rows);
  BALEEN_CHECK_EQ(format.width(), args.kv.extent(1));
  BALEEN_CHECK_LE(format.width(), kMaxPieces * kPieceStride);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.weight.size()), args.kv.extent(1));
  BALEEN_CHECK_EQ(format.rope, 2 * args.cosine.extent(1));
  BALEEN_CHECK_EQ(format.rope % kPiece, 0);
  BALEEN_CHECK_EQ(args.kv.stride(0) % kPiece, 0);
  BALEEN_CHECK(args.cosine.stride(0) % 4 == 0 && args.sine.stride(0) % 4 == 0);
  BALEEN_CHECK(!format.has_groups() || format.grouped->codes == GroupedCodes::kFp8);
  return {.kv = args.kv.bf16().data(),
          .kv_stride = args.kv.stride(0),
          .weight = args.weight.data(),
          .width = format.width(),
          .eps = args.eps,
          .cosine = args.cosine.data(),
          .sine = args.sine.data(),
          .cosine_stride = args.cosine.stride(0),
          .sine_stride = args.sine.stride(0),
          .batch = context.batch,
          .window = DeviceLatentPool(args.window)};
}

}  // namespace baleen::BALEEN_ARCH::kv_store_rows
