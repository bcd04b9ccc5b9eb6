// Experts in the stated order, tiles of many tokens. A warp has 32 weight rows (inner: of each 16, 8 of w1
// and the same of w3), which it turns into operands once a slice, and all tokens of the tile; digits 0, 1 and
// 2 of eight tokens are columns of an instruction each (`to_joint_digits`).
//
// Tokens are cut into digits once a call, inner values where they are made.
#include <algorithm>

#include "base/check.h"
#include "ops/experts/cuda/expert_dispatch_kernel.cuh"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/cuda/stated_launch.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace stated;
using dispatch_kernels::load_word;
using dispatch_kernels::QuantisedWord;

constexpr int kWarps = 8, kThreads = kWarps * kWarpLanes;
constexpr int kRowTiles = kStages / kWarps;  ///< that a warp has
constexpr int kTokens = kManyStatedTokens;
constexpr int kTokenTiles = kTokens / 8;
constexpr int kPlanes = kSliceGroups * kDigits;
constexpr int kPlaneBytes = 32;  ///< a token's: a digit of each input of a group
static_assert(kPlanes * kPlaneBytes == kDigitBytes);
constexpr std::uint32_t kSlicePieces = kDigitBytes / 16;  ///< copies of 16 bytes: a token's digits

struct ManyStage {
  WeightStage weights[kStages];
  alignas(16) std::uint8_t digits[kPlanes][kTokens][kPlaneBytes];
  alignas(16) float scales[kTokens];
};

constexpr int kManyStages = 2;
/// Place of a group's planes, and of a place's group: those whose products are added first come first.
__host__ __device__ constexpr int place_of_group(int group) {
  return group == 1 ? 2 : group == 2 ? 1 : group;
}
/// Plane of a digit of a group; digit 2 comes first.
__host__ __device__ constexpr int plane_of(int group, int digit) {
  return kDigits * place_of_group(group) + 2 - digit;
}
/// Place of half a plane of a tile's token: the same half of eight tokens lies in different banks.
__device__ constexpr int half_place(int token, int half) { return half ^ (token >> 2 & 1); }
/// From token to token of inner values: neighbours begin in different banks.
constexpr int kInnerPitch = kActivationGroup + 8;

union ManyMemory {
  ManyStage stages[kManyStages];
  Bf16Bits inner[kTokens][kInnerPitch];  ///< behind the last product
};

/// The tokens' digits on their way, by all threads of a block.
class ManyTokensLoader {
 public:
  /// `token_of_row`: null where digits are those of rows.
  __device__ ManyTokensLoader(const DigitRows& from, const std::int32_t* token_of_row, const TokenTile& tile,
                              int num_slices)
      : digits_(from.digits), scales_(from.scales), scale_stride_(from.scale_stride) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      pieces_[i] = kNoPiece;
      if (item.token >= tile.num_rows) continue;
      pieces_[i] =
          static_cast<std::uint32_t>(row_of(tile, token_of_row, item.token) * num_slices) * kSlicePieces +
          static_cast<std::uint32_t>(2 * item.plane + item.half);
    }
    const int token = static_cast<int>(threadIdx.x);
    if (token < tile.num_rows) {
      scales_ += row_of(tile, token_of_row, token);
    } else {
      scales_ = nullptr;
    }
  }

  /// Columns of missing tokens stay as they are: their sums are not read.
  __device__ void copy(int slice, ManyStage& to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      if (pieces_[i] != kNoPiece)
        ptx::cp_async_16(
            &to.digits[item.plane][item.token][16 * half_place(item.token, item.half)],
            digits_ + std::uint64_t{pieces_[i] + static_cast<std::uint32_t>(slice) * kSlicePieces} * 16);
    }
    if (scales_ != nullptr) ptx::cp_async_4(&to.scales[threadIdx.x], scales_ + slice * scale_stride_);
  }

 private:
  static constexpr int kItems = kPlanes * kTokens * 2 / kThreads;
  static_assert(kItems * kThreads == kPlanes * kTokens * 2 && kTokens <= kThreads);

  /// 16 bytes. Eight threads write to different banks, two read 32 bytes side by side.
  struct Item {
    int half, token, plane;
    __device__ explicit Item(int i) {
      const int number = i * kThreads + static_cast<int>(threadIdx.x);
      half = number % 2;
      plane = number / 8 % kPlanes;
      token = number / 2 % 4 + number / (8 * kPlanes) * 4;
    }
  };

  __device__ static std::int32_t row_of(const TokenTile& tile, const std::int32_t* token_of_row, int token) {
    const std::int32_t row = tile.first_row + token;
    return token_of_row == nullptr ? row : token_of_row[row];
  }

  static constexpr std::uint32_t kNoPiece = 0xFFFFFFFFu;
  const std::uint8_t* digits_;
  std::uint32_t pieces_[kItems];  ///< slice 0's, in units of 16 bytes
  const float* scales_;
  std::int64_t scale_stride_;
};

/// The lane's outputs: rows g and g + 8 of each 16, tokens 2 q and 2 q + 1 of each eight.
using ManySums = float[kRowTiles][kTokenTiles][4];

/// `kModerate`: all scales are (`are_moderate`).
template <bool kModerate>
__device__ void add_many_slice(const ManyStage& stage, int num_tokens, ManySums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  std::uint32_t a[kRowTiles][kSliceGroups][4], eightfold[kRowTiles][kSliceGroups][4];
  float scales[kRowTiles][2][kSliceGroups];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    const WeightStage& rows = stage.weights[kRowTiles * warp + m];
#pragma unroll
    for (int pair = 0; pair < kSliceGroups; pair += 2) {
      std::uint32_t codes[4];
      load_codes(rows, pair, codes);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t weights[2], eights[2];
          weights_and_eightfold(codes[2 * i + half], weights, eights);
#pragma unroll
          for (int word = 0; word < 2; ++word) {
            a[m][pair + i][2 * word + half] = weights[word];
            eightfold[m][pair + i][2 * word + half] = eights[word];
          }
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t of_row = rows.scales[g + 8 * half];
      if constexpr (kModerate) {
        moderate_scales(of_row, scales[m][half]);
      } else {
        group_scales(of_row, scales[m][half]);
      }
    }
  }
  // Planes lie in the order in which instructions take them; lane 8 i + r reads row r of matrix i.
  const int matrix = lane / 8, row = lane % 8;
  const std::uint8_t* const own = &stage.digits[matrix / 2][row][16 * half_place(row, matrix % 2)];
  const auto load_planes = [&](int n, int pair, std::uint32_t(&words)[4]) {
    ptx::ldmatrix_x4(words, own + (2 * pair * kTokens + 8 * n) * kPlaneBytes);
  };
  std::uint32_t next[4];  // planes 0 and 1 of the next eight tokens
  load_planes(0, 0, next);
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const int first = 8 * n;
    if (first >= num_tokens) break;
    std::uint32_t b[kPlanes / 2][4];
#pragma unroll
    for (int pair = 0; pair < kPlanes / 2; ++pair) {
      if (pair > 0) {
        load_planes(n, pair, b[pair]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) b[0][i] = next[i];
      }
    }
    if (n + 1 < kTokenTiles) load_planes(n + 1, 0, next);
    float group_sums[kRowTiles][4][kSliceGroups];
#pragma unroll
    for (int place = 0; place < kSliceGroups; ++place) {
      const int group = place_of_group(place);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const auto multiply = [&](std::int32_t(&d)[4], const std::uint32_t(&weights)[4], int digit,
                                  const std::int32_t(&c)[4]) {
          const int plane = plane_of(group, digit);
          ptx::mma_16x8x32_s8(d, weights, b[plane / 2][plane % 2 * 2], b[plane / 2][plane % 2 * 2 + 1], c);
        };
        std::int32_t joined[4] = {};
        multiply(joined, eightfold[m][group], 2, joined);
        multiply(joined, a[m][group], 1, joined);
#pragma unroll
        for (std::int32_t& sum : joined) sum *= kDigitBase;
        multiply(joined, a[m][group], 0, joined);
#pragma unroll
        for (int i = 0; i < 4; ++i) group_sums[m][i][group] = __int2float_rn(joined[i]);
      }
    }
    const float2 token_scales = *reinterpret_cast<const float2*>(&stage.scales[first + 2 * q]);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float slice = kModerate ? slice_sum_of_moderate(group_sums[m][i], scales[m][i / 2])
                                      : slice_sum(group_sums[m][i], scales[m][i / 2]);
        sums[m][n][i] = add_slice(slice, i % 2 == 0 ? token_scales.x : token_scales.y, sums[m][n][i]);
      }
    }
  }
}

/// By all threads of a block; ends with a barrier.
__device__ void multiply_many(const WeightRows (&rows)[kRowTiles], const ManyTokensLoader& tokens,
                              int num_tokens, ManyMemory& memory, ManySums& sums) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  static_assert(kRowTiles * kTileRows == kWarpLanes);
  const auto copy = [&](int slice) {
    ManyStage& stage = memory.stages[slice % kManyStages];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) rows[m].copy(slice, stage.weights[kRowTiles * warp + m]);
    tokens.copy(slice, stage);
    ptx::cp_async_commit();
  };
#pragma unroll
  for (auto& of_rows : sums) {
#pragma unroll
    for (auto& of_tokens : of_rows) {
#pragma unroll
      for (float& sum : of_tokens) sum = 0.0F;
    }
  }
  copy(0);
#pragma unroll 1
  for (int slice = 0; slice < rows[0].num_slices(); ++slice) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (slice + 1 < rows[0].num_slices()) copy(slice + 1);
    const ManyStage& stage = memory.stages[slice % kManyStages];
    const WeightStage& own = stage.weights[kRowTiles * warp + lane / kTileRows];
    if (__all_sync(kAllLanes, are_moderate(own.scales[lane % kTileRows]))) {
      add_many_slice<true>(stage, num_tokens, sums);
    } else {
      add_many_slice<false>(stage, num_tokens, sums);
    }
  }
  __syncthreads();
}

/// Calls `take(token, stage, row, sums, i)` for each sum of the lane whose token exists: sums[i], of row
/// `row` of the 16 of the stage.
template <class Take>
__device__ void for_each_sum(int num_tokens, const ManySums& sums, Take take) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * n + 2 * q + i % 2;
        if (token < num_tokens) take(token, kRowTiles * warp + m, g + i / 2 * 8, sums[m][n], i);
      }
    }
  }
}

/// Writes the lane's four inputs of a slice, word `lane` of it. A plane has the even words, then the odd
/// ones, as lanes of an instruction take them: lane q of four words 2 q and 2 q + 1.
__device__ void store_digits(const DigitRows& to, std::int64_t row, int slice, int num_slices,
                             std::uint32_t codes, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  std::uint32_t digits[kDigits];
  to_joint_digits(codes, digits);
  auto* const words =
      reinterpret_cast<std::uint32_t*>(to.digits + (row * num_slices + slice) * std::int64_t{kDigitBytes});
#pragma unroll
  for (int digit = 0; digit < kDigits; ++digit)
    words[plane_of(lane / 8, digit) * 8 + lane % 2 * 4 + lane % 8 / 2] = digits[digit];
  const bool nan = __any_sync(kAllLanes, has_nan(codes));
  if (lane == 0) to.scales[slice * to.scale_stride + row] = slice_scale(scale, nan);
}

__device__ void inner_many(const ManyStatedParams& many, const TokenTile& tile, ManyMemory& memory) {
  const Params& p = many.products;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int place = place_of(p, tile);
  const int piece = static_cast<int>(blockIdx.x), stage = piece * kStages + kRowTiles * warp;
  const WeightRows rows[kRowTiles] = {inner_rows(p, place, stage), inner_rows(p, place, stage + 1)};
  const ManyTokensLoader tokens(many.tokens, many.token_of_row, tile, rows[0].num_slices());
  ManySums sums;
  multiply_many(rows, tokens, tile.num_rows, memory, sums);
  for_each_sum(tile.num_rows, sums, [&](int token, int own_stage, int row, const float(&of)[4], int i) {
    if (i < 2) {
      memory.inner[token][first_inner(own_stage) + row] =
          stated::activate(of[i], of[i + 2], p.swiglu_limit, p.row_weight[tile.first_row + token]);
    }
  });
  __syncthreads();
  for (int token = warp; token < tile.num_rows; token += kWarps) {
    float values[4];
    unpack_bf16(*reinterpret_cast<const uint2*>(&memory.inner[token][4 * lane]), values);
    const Fp8Piece<4> quantised = quantise_fp8_group(values);
    store_digits(many.inner, tile.first_row + token, piece, p.inner_width / kSliceWidth, quantised.codes[0],
                 quantised.scale);
  }
}

__device__ void down_many(const ManyStatedParams& many, const TokenTile& tile, ManyMemory& memory) {
  const Params& p = many.products;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes, place = place_of(p, tile);
  const int first = static_cast<int>(blockIdx.x) * kStages, stage = first + kRowTiles * warp;
  const WeightRows rows[kRowTiles] = {down_rows(p, place, stage), down_rows(p, place, stage + 1)};
  const ManyTokensLoader tokens(many.inner, nullptr, tile, rows[0].num_slices());
  ManySums sums;
  multiply_many(rows, tokens, tile.num_rows, memory, sums);
  for_each_sum(tile.num_rows, sums, [&](int token, int own_stage, int row, const float(&of)[4], int i) {
    const int column = first_output(first + own_stage) + row;
    if (column < p.width) store_output(p.outputs(tile), p.output_place(tile, token, column), of[i]);
  });
}

constexpr std::int64_t kManySharedBytes = sizeof(ManyMemory);
static_assert(kManySharedBytes <= 99 << 10);  // GPUs of 8.6, 8.9 and 12.0 have no more

/// Block (n, t): piece n of tile t of the routed experts', which follow those of the shared one. Blocks of a
/// tile, and tiles of an expert, run side by side, so that operands come from the L2 once they have come.
template <bool kDown>
__global__ void __launch_bounds__(kThreads, 1)
    stated_many_kernel(const __grid_constant__ ManyStatedParams many, int first_tile, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const Params& p = many.products;
  const int index = first_tile + static_cast<int>(blockIdx.y);
  if (index >= *p.num_tiles) return;
  auto& memory = *reinterpret_cast<ManyMemory*>(dynamic);
  if constexpr (kDown) {
    down_many(many, p.tiles[index], memory);
  } else {
    inner_many(many, p.tiles[index], memory);
  }
}

constexpr int kPrepareWarps = 8;

struct PrepareParams {
  TokenRows x;
  const std::int32_t* row_of_slot;
  std::int64_t num_tokens;
  std::int32_t num_selected;
  DigitRows to;
  std::int32_t* token_of_row;
  Fp8Rows codes;  ///< the shared expert's, from token 0 on; null: there is none
};

/// A warp has a slice of a token.
__global__ void __launch_bounds__(kPrepareWarps* kWarpLanes)
    prepare_tokens_kernel(const __grid_constant__ PrepareParams p, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int num_slices = static_cast<int>(p.x.width / kSliceWidth);
  const std::int64_t item =
      std::int64_t{blockIdx.x} * kPrepareWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
  const std::int64_t token = item / num_slices;
  const int slice = static_cast<int>(item % num_slices);
  if (token >= p.num_tokens) return;
  const QuantisedWord word = load_word(p.x, token, slice);
  store_digits(p.to, token, slice, num_slices, word.codes, word.scale);
  if (p.codes.codes != nullptr) {
    auto* const words = reinterpret_cast<std::uint32_t*>(p.codes.codes + token * p.x.width);
    words[slice * kWarpLanes + product_word(lane)] = word.codes;
    if (lane == 0) p.codes.scales[slice * p.codes.scale_stride + token] = word.scale;
  }
  if (slice != 0) return;
  for (int slot = lane; slot < p.num_selected; slot += kWarpLanes) {
    const std::int32_t row = p.row_of_slot[token * p.num_selected + slot];
    if (row >= 0) p.token_of_row[row] = static_cast<std::int32_t>(token);
  }
}

}  // namespace

void prepare_stated_tokens(const ExpertsArgs& args, const DispatchPlan& plan, const Fp8Rows& shared_rows,
                           const ManyStatedParams& params, CudaContext& context) {
  const PrepareParams prepare{.x = TokenRows(args),
                              .row_of_slot = plan.row_of_slot,
                              .num_tokens = args.x.extent(0),
                              .num_selected = static_cast<std::int32_t>(args.ids.extent(1)),
                              .to = params.tokens,
                              .token_of_row = params.token_of_row,
                              .codes = args.shared != nullptr ? shared_rows : Fp8Rows{}};
  const std::int64_t items = prepare.num_tokens * (args.x.extent(1) / kSliceWidth);
  launch_kernel("cutting tokens into digits", prepare_tokens_kernel,
                {.grid = dim3(static_cast<unsigned>((items + kPrepareWarps - 1) / kPrepareWarps)),
                 .threads = kPrepareWarps * kWarpLanes},
                context.stream, prepare);
}

void multiply_many_stated(const ManyStatedParams& params, const DispatchExtents& extents,
                          CudaContext& context) {
  const Params& p = params.products;
  const auto num_shared = static_cast<int>((extents.num_shared + kTokens - 1) / kTokens);
  const auto launch_routed = [&](auto kernel, std::int64_t pieces) {
    const std::int64_t tiles = extents.max_tiles() - num_shared;
    if (tiles == 0) return;
    launch_kernel(kStatedLaunch, kernel,
                  {.grid = dim3(static_cast<unsigned>(pieces), static_cast<unsigned>(tiles)),
                   .threads = kThreads,
                   .shared_bytes = kManySharedBytes},
                  context.stream, params, num_shared);
  };
  const auto launch_shared = [&](SharedHalf half) {
    if (num_shared > 0) multiply_shared_stated(p, num_shared, half, context);
  };
  launch_shared(SharedHalf::kInner);
  launch_routed(stated_many_kernel<false>, inner_pieces(p.inner_width));
  launch_shared(SharedHalf::kDown);
  launch_routed(stated_many_kernel<true>, down_pieces(p.width));
}

}  // namespace baleen::BALEEN_ARCH
