// The shared FP8 expert beside experts in the stated order, many tokens: to the bits of
// expert_dequantised.cuh, which few tokens have. A warp makes operands of 32 weight rows once a slice (inner:
// of each 16, 8 of w1 and the same of w3) for all 64 tokens of a tile.
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mma_bf16.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/cuda/stated_launch.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace stated;
using dequantised::RowReader;
using Row = RowReader<WeightFormat::kFp8>;

constexpr int kWarps = 8, kThreads = kWarps * kWarpLanes;
constexpr int kRowTiles = kStages / kWarps;  ///< that a warp has
constexpr int kTokens = kManyStatedTokens;
constexpr int kTokenTiles = kTokens / 8;
constexpr int kEighths = 4;  ///< eight inputs of each lane of four

/// Tokens as B operands, a slice each: as in `dequantised::Columns`.
struct TokenSlice {
  static constexpr int kStride = 20;
  uint4 pairs[kTokens][kStride];
  alignas(8) float scales[kTokens];
};

union SharedTile {
  TokenSlice slices[2];
  Bf16Bits inner[kTokens][kActivationGroup];  ///< behind the last product
};

/// A slice of a tile's tokens on its way, by all threads of a block.
class TokenSliceLoader {
 public:
  __device__ TokenSliceLoader(const Fp8Rows& rows, std::int64_t pitch, const TokenTile& tile)
      : rows_(rows), pitch_(pitch), tile_(tile) {}

  __device__ void load(int slice) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      if (item.token >= tile_.num_rows) continue;
      const auto* words = reinterpret_cast<const std::uint32_t*>(
          rows_.codes + (tile_.first_row + item.token) * pitch_ + slice * kActivationGroup);
      low_[i] = __ldcg(words + 8 * item.eighth + item.q);  // product_word(8 q + 2 eighth)
      high_[i] = __ldcg(words + 8 * item.eighth + 4 + item.q);
    }
    const int token = static_cast<int>(threadIdx.x);
    if (token < tile_.num_rows)
      scale_ = __ldcg(rows_.scales + slice * rows_.scale_stride + tile_.first_row + token);
  }
  /// Places of missing tokens stay as they are: the sums of their columns are not read.
  __device__ void store(TokenSlice& to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      if (item.token >= tile_.num_rows) continue;
      std::uint32_t pairs[4];
      dequantised::dequantise_e4m3_words(low_[i], high_[i], pairs);
      to.pairs[item.token][4 * item.eighth + item.q] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    }
    const int token = static_cast<int>(threadIdx.x);
    if (token < tile_.num_rows) to.scales[token] = scale_;
  }

 private:
  static constexpr int kItems = kTokens * 4 * kEighths / kThreads;
  static_assert(kItems * kThreads == kTokens * 4 * kEighths && kTokens <= kThreads);

  /// Eight inputs of a token.
  struct Item {
    int q, eighth, token;
    __device__ explicit Item(int i) {
      const int number = i * kThreads + static_cast<int>(threadIdx.x);
      q = number % 4;
      eighth = number / 4 % kEighths;
      token = number / (4 * kEighths);
    }
  };

  const Fp8Rows& rows_;
  std::int64_t pitch_;
  const TokenTile& tile_;
  std::uint32_t low_[kItems] = {}, high_[kItems] = {};
  float scale_ = 0.0F;
};

/// The lane's outputs: rows g and g + 8 of each 16, tokens 2 q and 2 q + 1 of each eight.
using SharedSums = float[kRowTiles][kTokenTiles][4];

/// Adds a slice to `sums`. `factors`: the weights' scale for rows g and g + 8.
__device__ void add_slice_of_shared(const std::uint32_t (&a)[kRowTiles][kEighths][8],
                                    const float (&factors)[kRowTiles][2], const TokenSlice& tokens,
                                    int num_tokens, SharedSums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    if (8 * n >= num_tokens) break;
    float products[kRowTiles][4] = {};
#pragma unroll
    for (int eighth = 0; eighth < kEighths; ++eighth) {
      const uint4 x = tokens.pairs[8 * n + g][4 * eighth + q];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const std::uint32_t(&w)[8] = a[m][eighth];
        ptx::mma_16x8x16(products[m], w[0], w[4], w[1], w[5], x.x, x.y);
        ptx::mma_16x8x16(products[m], w[2], w[6], w[3], w[7], x.z, x.w);
      }
    }
    const float2 scales = *reinterpret_cast<const float2*>(&tokens.scales[8 * n + 2 * q]);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float scale = (i % 2 == 0 ? scales.x : scales.y) * factors[m][i / 2];
        sums[m][n][i] = fmaf(products[m][i], scale, sums[m][n][i]);
      }
    }
  }
}

/// By all threads of a block; ends with a barrier. `rows[m]`: those of lanes 4 g and on, g and g + 8.
__device__ void multiply_shared_rows(const Row (&rows)[kRowTiles][2], int num_inputs,
                                     TokenSliceLoader& loader, int num_tokens, SharedTile& memory,
                                     SharedSums& sums) {
  const int num_slices = num_inputs / kActivationGroup;
  Row::Slice codes[kRowTiles][2];
  const auto load_codes_of = [&](int slice) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) codes[m][half] = rows[m][half].load(slice);
    }
  };
#pragma unroll
  for (auto& of_rows : sums) {
#pragma unroll
    for (auto& of_tokens : of_rows) {
#pragma unroll
      for (float& sum : of_tokens) sum = 0.0F;
    }
  }
  load_codes_of(0);
  loader.load(0);
#pragma unroll 1
  for (int slice = 0; slice < num_slices; ++slice) {
    TokenSlice& tokens = memory.slices[slice % 2];
    loader.store(tokens);
    __syncthreads();
    std::uint32_t a[kRowTiles][kEighths][8];
    float factors[kRowTiles][2];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factors[m][half] = rows[m][half].slice_factor(slice);
#pragma unroll
        for (int eighth = 0; eighth < kEighths; ++eighth) {
          std::uint32_t pairs[4];
          Row::dequantise(codes[m][half], eighth, nullptr, pairs);
#pragma unroll
          for (int i = 0; i < 4; ++i) a[m][eighth][4 * half + i] = pairs[i];
        }
      }
    }
    if (slice + 1 < num_slices) {
      load_codes_of(slice + 1);
      loader.load(slice + 1);
    }
    add_slice_of_shared(a, factors, tokens, num_tokens, sums);
  }
  __syncthreads();
}

__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }
__device__ int group_of_lane() { return static_cast<int>(threadIdx.x) % kWarpLanes / 4; }

/// Calls `take(token, m, i)` for each of the lane's sums whose token exists.
template <class Take>
__device__ void for_each_shared_sum(int num_tokens, Take take) {
  const int q = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * n + 2 * q + i % 2;
        if (token < num_tokens) take(token, m, n, i);
      }
    }
  }
}

__device__ void shared_inner(const Params& p, const TokenTile& tile, SharedTile& memory) {
  const auto own = [&](int m) {
    return (kRowTiles * warp_index() + m) * dequantised::kWarpInner + group_of_lane();
  };
  const auto row = [&](int m, int half) {
    const int n = static_cast<int>(blockIdx.y) * kActivationGroup + own(m);
    return Row(p.shared[half], 0, n, p.width);
  };
  const Row rows[kRowTiles][2] = {{row(0, 0), row(0, 1)}, {row(1, 0), row(1, 1)}};
  TokenSliceLoader loader(p.x, p.width, tile);
  SharedSums sums;
  multiply_shared_rows(rows, p.width, loader, tile.num_rows, memory, sums);
  for_each_shared_sum(tile.num_rows, [&](int token, int m, int n, int i) {
    if (i >= 2) return;
    memory.inner[token][own(m)] =
        BALEEN_ARCH::activate(sums[m][n][i], sums[m][n][i + 2], clamp_limit(p.swiglu_limit), 1.0F);
  });
  __syncthreads();
  dequantised::quantise_inner(p, tile, memory.inner);
}

/// Rows past the last one are computed as that and not stored.
__device__ void shared_down(const Params& p, const TokenTile& tile, SharedTile& memory) {
  const auto column = [&](int m, int half) {
    return (static_cast<int>(blockIdx.y) * kStages + kRowTiles * warp_index() + m) * dequantised::kWarpDown +
           group_of_lane() + 8 * half;
  };
  const auto row = [&](int m, int half) {
    return Row(p.shared[2], 0, min(column(m, half), p.width - 1), p.shared_inner_width);
  };
  const Row rows[kRowTiles][2] = {{row(0, 0), row(0, 1)}, {row(1, 0), row(1, 1)}};
  TokenSliceLoader loader(p.inner, p.inner_pitch, tile);
  SharedSums sums;
  multiply_shared_rows(rows, p.shared_inner_width, loader, tile.num_rows, memory, sums);
  for_each_shared_sum(tile.num_rows, [&](int token, int m, int n, int i) {
    const int to = column(m, i / 2);
    if (to < p.width) store_output(p.outputs(tile), p.output_place(tile, token, to), sums[m][n][i]);
  });
}

/// Block (t, n): piece n of tile t of the shared expert's, which come first.
template <bool kDown>
__global__ void __launch_bounds__(kThreads, 1)
    stated_shared_kernel(const __grid_constant__ Params p, NextAtOnce order) {
  __shared__ SharedTile memory;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const TokenTile tile = p.tiles[blockIdx.x];
  if constexpr (kDown) {
    shared_down(p, tile, memory);
  } else {
    shared_inner(p, tile, memory);
  }
}

}  // namespace

void multiply_shared_stated(const Params& params, int num_tiles, SharedHalf half, CudaContext& context) {
  const bool down = half == SharedHalf::kDown;
  const std::int64_t pieces = down ? down_pieces(params.width) : inner_pieces(params.shared_inner_width);
  launch_kernel(
      kStatedLaunch, down ? stated_shared_kernel<true> : stated_shared_kernel<false>,
      {.grid = dim3(static_cast<unsigned>(num_tiles), static_cast<unsigned>(pieces)), .threads = kThreads},
      context.stream, params);
}

}  // namespace baleen::BALEEN_ARCH
