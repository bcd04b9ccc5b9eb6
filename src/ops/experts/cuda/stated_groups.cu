// Experts in the stated order whose activations have a scale per 32 inputs (ops/experts/stated_sums.h), a
// launch for each half; the FP8 expert that is shared keeps to the order of expert_dequantised.cuh.
//
// A lane has a group of 32 inputs of a weight row, whose sum with the digits of a token it makes of byte
// products (dp4a); four lanes make a slice, and the slices of eight quads are added in turn. Weights come in
// pieces of 16 bytes a lane, 512 a warp, and are dequantised once for the tokens of a tile. One token: some
// 80 instructions for 16 bytes, which is about what memory gives; each more of them takes 50. Right for many
// tokens, not fast.
#include "ops/experts/cuda/stated_groups.h"

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/expert_dequantised.cuh"
#include "ops/experts/cuda/stated_products.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using dequantised::kThreads;
using dequantised::kWarps;
using dequantised::Matrix;
using dequantised::Params;

constexpr int kTokens = kGroupStatedTokens;
constexpr int kGroup = kSmallActivationGroup;
constexpr int kGroupWords = kGroup / 4;   ///< words of four codes
constexpr int kChunkGroups = kWarpLanes;  ///< groups that a warp has at a time
constexpr int kChunkSlices = kChunkGroups / stated::kSliceGroups;
constexpr int kWarpRows = 16;  ///< weight rows of a warp
constexpr int kRowsAhead = 4;  ///< whose codes are under way together
static_assert(kWarpRows == 2 * dequantised::kWarpInner && kWarpRows == dequantised::kWarpDown);

/// Tokens of a tile, a chunk of groups: digit d of the four inputs of word w of group g at
/// digits[token][d][w][g], and S * 2^-10, or NaN.
struct Chunk {
  static constexpr int kPitch = kChunkGroups + 4;  // what a warp stores then lies in different banks
  std::uint32_t digits[kTokens][stated::kDigits][kGroupWords][kPitch];
  float scales[kTokens][kChunkGroups];
};

struct GroupSmem {
  union {
    Chunk chunk;
    Bf16Bits inner[kTokens][kActivationGroup];  ///< behind the last product
    dequantised::ProductSmem<kTokens> shared;   ///< the shared expert's
  };
};

/// Rows of a tile as `dispatch_experts` or `quantise_inner` has written them.
struct TileRows {
  const Fp8Rows& rows;
  std::int64_t pitch;
  const TokenTile& tile;
  int num_groups;

  /// By all threads, between barriers.
  __device__ void load(int first_group, Chunk& to) const {
    constexpr int kWords = kChunkGroups * kGroupWords;  // of a token
    for (int i = static_cast<int>(threadIdx.x); i < tile.num_rows * kWords; i += kThreads) {
      // Eight lanes have a group; a warp has four of one token.
      const int token = i / kWords, group = i % kWords / kGroupWords, word = i % kGroupWords;
      const bool exists = first_group + group < num_groups;
      const std::int64_t row = tile.first_row + token;
      std::uint32_t codes = 0;
      if (exists) {
        const int slice = (first_group + group) / stated::kSliceGroups,
                  in_slice = group % stated::kSliceGroups;
        const auto* const words =
            reinterpret_cast<const std::uint32_t*>(rows.codes + row * pitch + slice * kActivationGroup);
        codes = __ldcg(words + product_word(in_slice * kGroupWords + word));
      }
      const unsigned nans = __ballot_sync(kAllLanes, stated::has_nan(codes));
      std::uint32_t digits[stated::kDigits];
      stated::to_digits(codes, digits);
#pragma unroll
      for (int digit = 0; digit < stated::kDigits; ++digit)
        to.digits[token][digit][word][group] = digits[digit];
      if (word == 0) {
        const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
        const float scale =
            exists ? __ldcg(rows.scales + (first_group + group) * rows.scale_stride + row) : 0.0F;
        to.scales[token][group] = stated::slice_scale(scale, (nans >> lane & 0xFFu) != 0);
      }
    }
  }
};

/// Where a lane's group of a weight row lies, for chunk after chunk.
struct RowGroups {
  const std::uint8_t* codes;
  const std::uint8_t* scales;

  __device__ RowGroups(const Matrix& matrix, int place, int row, int num_inputs) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    codes = matrix.codes + place * matrix.code_distance + static_cast<std::int64_t>(row) * (num_inputs / 2) +
            lane * (kGroup / 2);
    scales = static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance +
             static_cast<std::int64_t>(row) * (num_inputs / kGroup) + lane;
  }
};

/// Sum i of a warp: of its weight row i / kTokens and token i % kTokens. Lane i % 32 has it.
constexpr int kLaneSums = kWarpRows * kTokens / kWarpLanes;

/// q of the lane's group with a token: `weights` are twice W, in eight words.
__device__ inline float group_product(const std::uint32_t (&weights)[kGroupWords], float scale,
                                      const Chunk& chunk, int token, int lane) {
  std::int32_t sums[stated::kDigits] = {};
#pragma unroll
  for (int word = 0; word < kGroupWords; ++word) {
#pragma unroll
    for (int digit = 0; digit < stated::kDigits; ++digit)
      sums[digit] = __dp4a(static_cast<int>(weights[word]),
                           static_cast<int>(chunk.digits[token][digit][word][lane]), sums[digit]);
  }
  // |2 G| < 2^28.
  const std::int32_t twice = sums[0] + stated::kDigitBase * (sums[1] + stated::kDigitBase * sums[2]);
  const float product = __fmul_rn(__int2float_rn(twice >> 1), scale);
  return __fmul_rn(product, chunk.scales[token][lane]);
}

/// Adds the products of a chunk with the warp's rows. `row_groups(i)`: those of row i. By all lanes.
template <class RowGroupsOf>
__device__ void add_chunk(RowGroupsOf row_groups, int first_group, int num_groups, int num_tokens,
                          const Chunk& chunk, float (&sums)[kLaneSums]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int num_slices = min(kChunkSlices, (num_groups - first_group) / stated::kSliceGroups);
  const bool exists = first_group + lane < num_groups;
#pragma unroll
  for (int first = 0; first < kWarpRows; first += kRowsAhead) {
    uint4 codes[kRowsAhead];
    std::uint32_t scale_codes[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      const RowGroups groups = row_groups(first + i);
      codes[i] = {};
      scale_codes[i] = 0;
      if (!exists) continue;
      codes[i] = __ldcg(reinterpret_cast<const uint4*>(groups.codes + first_group * (kGroup / 2)));
      scale_codes[i] = groups.scales[first_group];
    }
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      std::uint32_t weights[kGroupWords];
      stated::twice_weights(codes[i].x, weights[0], weights[1]);
      stated::twice_weights(codes[i].y, weights[2], weights[3]);
      stated::twice_weights(codes[i].z, weights[4], weights[5]);
      stated::twice_weights(codes[i].w, weights[6], weights[7]);
      const float scale = e8m0_value(scale_codes[i]);
#pragma unroll
      for (int token = 0; token < kTokens; ++token) {
        if (token >= num_tokens) break;
        const float q = group_product(weights, scale, chunk, token, lane);
        const float halves = __fadd_rn(q, __shfl_xor_sync(kAllLanes, q, 2));
        const float slice = __fadd_rn(halves, __shfl_xor_sync(kAllLanes, halves, 1));
        const int place = (first + i) * kTokens + token;
        float sum = sums[place / kWarpLanes];
        for (int s = 0; s < num_slices; ++s)
          sum = __fadd_rn(__shfl_sync(kAllLanes, slice, s * stated::kSliceGroups), sum);
        if (lane == place % kWarpLanes) sums[place / kWarpLanes] = sum;
      }
    }
  }
}

/// Sums of the warp's rows over all of K. By all threads; ends with a barrier.
template <class RowGroupsOf>
__device__ void multiply_rows(RowGroupsOf row_groups, const TileRows& rows, Chunk& chunk,
                              float (&sums)[kLaneSums]) {
#pragma unroll
  for (float& sum : sums) sum = 0.0F;
  for (int first_group = 0; first_group < rows.num_groups; first_group += kChunkGroups) {
    rows.load(first_group, chunk);
    __syncthreads();
    add_chunk(row_groups, first_group, rows.num_groups, rows.tile.num_rows, chunk, sums);
    __syncthreads();
  }
}

__device__ void multiply_inner(const Params& p, const TokenTile& tile, int place, GroupSmem& memory) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int first = static_cast<int>(blockIdx.y) * kActivationGroup + warp * dequantised::kWarpInner;
  const auto row_groups = [&](int i) {
    // The rows of w1, then the same of w3.
    return RowGroups(p.routed[i / dequantised::kWarpInner], place, first + i % dequantised::kWarpInner,
                     p.width);
  };
  float sums[kLaneSums];
  multiply_rows(row_groups, {p.x, p.width, tile, p.width / kGroup}, memory.chunk, sums);
  constexpr int kHalf = kLaneSums / 2;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const int at = i * kWarpLanes + lane, token = at % kTokens;
    if (token >= tile.num_rows) continue;
    memory.inner[token][warp * dequantised::kWarpInner + at / kTokens] =
        stated::activate(sums[i], sums[i + kHalf], p.swiglu_limit, p.row_weight[tile.first_row + token]);
  }
  __syncthreads();
  dequantised::quantise_inner<kGroup>(p, tile, memory.inner);
}

__device__ void multiply_down(const Params& p, const TokenTile& tile, int place, GroupSmem& memory) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int first = (static_cast<int>(blockIdx.y) * kWarps + warp) * kWarpRows;
  const auto row_groups = [&](int i) {
    // Rows past the last one are computed as that and not stored.
    return RowGroups(p.routed[2], place, min(first + i, p.width - 1), p.inner_width);
  };
  float sums[kLaneSums];
  multiply_rows(row_groups, {p.inner, p.inner_pitch, tile, p.inner_width / kGroup}, memory.chunk, sums);
#pragma unroll
  for (int i = 0; i < kLaneSums; ++i) {
    const int at = i * kWarpLanes + lane, token = at % kTokens, column = first + at / kTokens;
    if (token < tile.num_rows && column < p.width)
      store_output(p.outputs(tile), p.output_place(tile, token, column), sums[i]);
  }
}

/// Block (t, n): piece n of tile t, of the inner half or of the down half.
template <bool kDown>
__global__ void __launch_bounds__(kThreads) stated_groups_kernel(const Params p, NextAtOnce order) {
  __shared__ GroupSmem memory;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  if (static_cast<int>(blockIdx.x) >= *p.num_tiles) return;
  const TokenTile tile = p.tiles[blockIdx.x];
  const bool is_shared = p.is_shared(tile);
  const int inner_width = is_shared ? p.shared_inner_width : p.inner_width;
  if (!kDown && static_cast<int>(blockIdx.y) * kActivationGroup >= inner_width) return;
  if (is_shared) {
    constexpr WeightFormat kShared = WeightFormat::kFp8x32;
    if constexpr (kDown) {
      dequantised::multiply_down<kShared, kGroup>(p, p.shared, tile, 0, inner_width, memory.shared);
    } else {
      dequantised::multiply_inner<kShared, kGroup>(p, p.shared, tile, 0, memory.shared);
    }
    return;
  }
  const int place = expert_place(p.places, tile.expert);
  if constexpr (kDown) {
    multiply_down(p, tile, place, memory);
  } else {
    multiply_inner(p, tile, place, memory);
  }
}

}  // namespace

void multiply_stated_groups(const ExpertsArgs& args, const DispatchExtents& extents,
                            const ExpertScratch& scratch, CudaContext& context) {
  BALEEN_CHECK_EQ(extents.tile_tokens, kTokens);
  const Params params = dequantised::params_of(args, extents, scratch, scratch.plan.lists.resident);
  const auto launch = [&](void (*kernel)(Params, NextAtOnce), std::int64_t pieces) {
    launch_kernel("multiplying experts in the stated order", kernel,
                  {.grid = dim3(static_cast<unsigned>(extents.max_tiles()), static_cast<unsigned>(pieces)),
                   .threads = kThreads},
                  context.stream, params);
  };
  constexpr int kDownPiece = kWarps * kWarpRows;
  launch(stated_groups_kernel<false>, params.inner_pitch / kActivationGroup);
  launch(stated_groups_kernel<true>, (params.width + kDownPiece - 1) / kDownPiece);
}

}  // namespace baleen::BALEEN_ARCH
