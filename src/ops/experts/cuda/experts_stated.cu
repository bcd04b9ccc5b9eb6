// Both products of experts in the stated order, a launch each. In a tile of few tokens a warp has 16 weight
// rows (inner: 8 of w1 and the same of w3) and all slices of them, so that its lanes add up in order.
//
// Weights come to shared memory by a ring of each warp's own, some slices ahead; instructions find them there
// as they lie in memory: a row's group of 32 codes is 16 bytes, of which the lanes of a quad have a word each.
// Tokens come as e4m3 codes and are cut into digits once for all warps of a block.
//
// Columns of an instruction: digits 0 and 1 of token t are columns 2 t and 2 t + 1, so that one lane has both
// sums; digit 2 is column 2 t of a second instruction.
#include "ops/experts/cuda/experts_stated.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/ldmatrix.h"
#include "ops/experts/cuda/expert_dequantised.cuh"
#include "ops/experts/cuda/stated_products.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using dequantised::Matrix;
using dequantised::Params;

constexpr int kWarps = dequantised::kWarps, kThreads = dequantised::kThreads;
constexpr int kTileRows = 16;  ///< weight rows of an instruction

/// Place of 16-byte piece `piece` of a row's slice: eight rows' pieces of one group lie in different banks.
__device__ constexpr int swizzled(int row, int piece) { return piece ^ (row >> 1 & 3); }

/// A slice of a warp's 16 rows.
struct WeightStage {
  alignas(16) std::uint8_t codes[kTileRows][stated::kSliceBytes];
  std::uint32_t scales[kTileRows];
};

constexpr int kFewStages = 4;
constexpr int kFewChunk = 8;  ///< slices of tokens in shared memory
constexpr int kFewTokens = kFewStatedTokens;

/// Digits of the tokens of a tile. What is there of tokens that there are not gives columns that nobody
/// reads.
struct FewColumns {
  std::uint8_t lower[stated::kSliceGroups][kFewTokens][2][32];
  std::uint8_t upper[stated::kSliceGroups][kFewTokens][32];
};

struct FewMemory {
  WeightStage weights[kWarps][kFewStages];
  alignas(16) FewColumns columns[kFewChunk];
  float scales[kFewChunk][kFewTokens];
  alignas(16) Bf16Bits inner[kFewTokens][kActivationGroup];
};

/// A warp's rows of FP4 weights on their way.
class FewWeights {
 public:
  /// `rows`: where rows 0 to 7 and 8 to 15 begin, `num_inputs` codes each, and their scales.
  __device__ FewWeights(const Matrix& first, int first_row, const Matrix& second, int second_row,
                        int last_row, int place, int num_inputs, WeightStage (&stages)[kFewStages])
      : stages_(stages), num_slices_(num_inputs / kActivationGroup) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    const auto row_of = [&](int row) { return min((row < 8 ? first_row : second_row) + row % 8, last_row); };
    const auto matrix_of = [&](int row) -> const Matrix& { return row < 8 ? first : second; };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      codes_[half] = matrix_of(row).codes + place * matrix_of(row).code_distance +
                     std::int64_t{row_of(row)} * (num_inputs / 2) + lane % 4 * 16;
    }
    const int row = lane % kTileRows;
    scales_ = static_cast<const std::uint8_t*>(matrix_of(row).scales) +
              place * matrix_of(row).scale_distance + std::int64_t{row_of(row)} * (num_inputs / 32);
    for (int slice = 0; slice < kFewStages - 1; ++slice) copy(slice);
  }

  /// Waits for slice `slice`, the next one.
  __device__ const WeightStage& wait(int slice) {
    ptx::cp_async_wait<kFewStages - 2>();
    __syncwarp();
    copy(slice + kFewStages - 1);
    return stages_[slice % kFewStages];
  }

 private:
  __device__ void copy(int slice) {
    if (slice < num_slices_) {
      WeightStage& stage = stages_[slice % kFewStages];
      const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + 8 * half;
        ptx::cp_async_16(&stage.codes[row][16 * swizzled(row, lane % 4)],
                         codes_[half] + slice * stated::kSliceBytes);
      }
      if (lane < kTileRows) ptx::cp_async_4(&stage.scales[lane], scales_ + slice * stated::kSliceGroups);
    }
    ptx::cp_async_commit();
  }

  WeightStage (&stages_)[kFewStages];
  const std::uint8_t* codes_[2];
  const std::uint8_t* scales_;
  int num_slices_;
};

/// Rows of a tile on their way to `FewColumns`. A warp takes a slice of a token, a lane a word of it.
class FewTokensLoader {
 public:
  __device__ FewTokensLoader(const Fp8Rows& rows, std::int64_t pitch, const TokenTile& tile, int num_slices)
      : rows_(rows), pitch_(pitch), tile_(tile), num_slices_(num_slices) {}

  __device__ void load(int first) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      words_[i] = 0;
      scales_[i] = 0.0F;
      if (item.token >= tile_.num_rows || first + item.slice >= num_slices_) continue;
      const std::int64_t row = tile_.first_row + item.token;
      words_[i] = __ldcg(reinterpret_cast<const std::uint32_t*>(rows_.codes + row * pitch_ +
                                                                (first + item.slice) * kActivationGroup) +
                         item.word);
      scales_[i] = __ldcg(rows_.scales + (first + item.slice) * rows_.scale_stride + row);
    }
  }
  __device__ void store(FewMemory& to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      if (item.token >= tile_.num_rows) continue;
      std::uint32_t digits[stated::kDigits];
      stated::to_digits(words_[i], digits);
      const int input = stated::input_word(item.word), group = input / 8, at = input % 8 * 4;
      FewColumns& columns = to.columns[item.slice];
      *reinterpret_cast<std::uint32_t*>(&columns.lower[group][item.token][0][at]) = digits[0];
      *reinterpret_cast<std::uint32_t*>(&columns.lower[group][item.token][1][at]) = digits[1];
      *reinterpret_cast<std::uint32_t*>(&columns.upper[group][item.token][at]) = digits[2];
      const bool nan = __any_sync(kAllLanes, stated::has_nan(words_[i]));
      if (item.word == 0) to.scales[item.slice][item.token] = stated::slice_scale(scales_[i], nan);
    }
  }

 private:
  static constexpr int kItems = kFewChunk * kFewTokens / kWarps;
  static_assert(kItems * kWarps == kFewChunk * kFewTokens);

  struct Item {
    int token, slice, word;
    __device__ explicit Item(int i) {
      const int number = i * kWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
      slice = number % kFewChunk;
      token = number / kFewChunk;
      word = static_cast<int>(threadIdx.x) % kWarpLanes;
    }
  };

  const Fp8Rows& rows_;
  std::int64_t pitch_;
  const TokenTile& tile_;
  int num_slices_;
  std::uint32_t words_[kItems];
  float scales_[kItems];
};

/// The lane's outputs of a slice: of rows g and g + 8 and token q, added to `sums`.
__device__ void add_few_slice(const WeightStage& stage, const FewColumns& columns, float token_scale,
                              float (&sums)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  const std::uint32_t scales[2] = {stage.scales[g], stage.scales[g + 8]};
  float products[2][stated::kSliceGroups];
#pragma unroll
  for (int pair = 0; pair < stated::kSliceGroups; pair += 2) {
    std::uint32_t codes[4];  // rows g and g + 8 of a group, and of the next one
    const int row = lane % kTileRows, piece = pair + lane / kTileRows;
    ptx::ldmatrix_x4(codes, &stage.codes[row][16 * swizzled(row, piece)]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int group = pair + i;
      std::uint32_t a[4];
      stated::twice_weights(codes[2 * i], a[0], a[2]);
      stated::twice_weights(codes[2 * i + 1], a[1], a[3]);
      const uint2 lower = *reinterpret_cast<const uint2*>(&columns.lower[group][g / 2][g % 2][8 * q]);
      const uint2 upper = *reinterpret_cast<const uint2*>(&columns.upper[group][g / 2][8 * q]);
      std::int32_t lower_sums[4], upper_sums[4];
      ptx::mma_16x8x32_s8(lower_sums, a, lower.x, lower.y, stated::kSumBegin);
      ptx::mma_16x8x32_s8(upper_sums, a, upper.x, upper.y, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        products[half][group] =
            stated::group_product(lower_sums[2 * half], lower_sums[2 * half + 1], upper_sums[2 * half],
                                  e8m0_value(scales[half] >> (8 * group) & 0xFFu));
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    sums[half] = stated::add_slice(products[half], token_scale, sums[half]);
}

/// By all threads of a block. `begin()` is called once weights are under way, before tokens are read.
template <class Begin>
__device__ void multiply_few(FewWeights& weights, FewTokensLoader& tokens, int num_slices, FewMemory& memory,
                             Begin begin, float (&sums)[2]) {
  const int q = static_cast<int>(threadIdx.x) % 4;
  begin();
  tokens.load(0);
  sums[0] = sums[1] = 0.0F;
#pragma unroll 1
  for (int chunk = 0; chunk < num_slices; chunk += kFewChunk) {
    __syncthreads();
    tokens.store(memory);
    __syncthreads();
    tokens.load(chunk + kFewChunk);
    const int count = min(kFewChunk, num_slices - chunk);
#pragma unroll 1
    for (int s = 0; s < count; ++s) {
      const WeightStage& stage = weights.wait(chunk + s);
      add_few_slice(stage, memory.columns[s], memory.scales[s][q], sums);
    }
  }
}

__device__ int place_of(const Params& p, const TokenTile& tile) {
  return p.places == nullptr ? tile.expert : __ldcg(p.places + tile.expert);
}

__device__ void inner_few(const Params& p, const TokenTile& tile, FewMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int g = lane / 4, q = lane % 4;
  const int first = warp * dequantised::kWarpInner;  // of the block's inner values
  const int row = static_cast<int>(blockIdx.y) * kActivationGroup + first;
  FewWeights weights(p.routed[0], row, p.routed[1], row, p.inner_width - 1, place_of(p, tile), p.width,
                     memory.weights[warp]);
  FewTokensLoader tokens(p.x, p.width, tile, p.width / kActivationGroup);
  float sums[2];
  multiply_few(
      weights, tokens, p.width / kActivationGroup, memory, [] {}, sums);
  if (q < tile.num_rows) {
    memory.inner[q][first + g] =
        stated::activate(sums[0], sums[1], p.swiglu_limit, p.row_weight[tile.first_row + q]);
  }
  __syncthreads();
  dequantised::quantise_inner(p, tile, memory.inner);
}

__device__ void down_few(const Params& p, const TokenTile& tile, FewMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int g = lane / 4, q = lane % 4;
  const int row = (static_cast<int>(blockIdx.y) * kWarps + warp) * dequantised::kWarpDown;
  // Rows past the last one are computed as that and not stored.
  FewWeights weights(p.routed[2], row, p.routed[2], row + 8, p.width - 1, place_of(p, tile), p.inner_width,
                     memory.weights[warp]);
  FewTokensLoader tokens(p.inner, p.inner_pitch, tile, p.inner_width / kActivationGroup);
  float sums[2];
  multiply_few(
      weights, tokens, p.inner_width / kActivationGroup, memory, [] { ptx::wait_for_previous_kernel(); },
      sums);
  if (q >= tile.num_rows) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = row + g + 8 * half;
    if (column < p.width) dequantised::store_output(p, tile, q, column, sums[half]);
  }
}

/// A shared expert's tile has no more tokens than a routed one's; the instructions of its products take
/// eight.
using SharedMemory = dequantised::Memory<8>;
constexpr std::int64_t kFewSharedBytes = std::max(sizeof(FewMemory), sizeof(SharedMemory));

__device__ TokenTile tile_at(const Params& p, int index) {
  const int4 tile = __ldcg(reinterpret_cast<const int4*>(p.tiles + index));
  return {tile.x, tile.y, tile.z, tile.w};
}

/// Block (t, n): piece n, 128 inner values of tile t.
__global__ void __launch_bounds__(kThreads)
    stated_inner_few_kernel(const __grid_constant__ Params p, NextBehindWait order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  order.wait().launch_next();
  if (static_cast<int>(blockIdx.x) >= __ldcg(p.num_tiles)) return;
  const TokenTile tile = tile_at(p, static_cast<int>(blockIdx.x));
  const bool is_shared = p.is_shared(tile);
  if (static_cast<int>(blockIdx.y) * kActivationGroup >= (is_shared ? p.shared_inner_width : p.inner_width))
    return;
  if (is_shared) {
    dequantised::multiply_inner<WeightFormat::kFp8>(p, p.shared, tile, 0,
                                                    *reinterpret_cast<SharedMemory*>(dynamic));
  } else {
    inner_few(p, tile, *reinterpret_cast<FewMemory*>(dynamic));
  }
}

/// Block (t, n): piece n, 256 outputs of tile t. The plan was there when the inner half let this one begin,
/// so that weights come while that one still runs.
__global__ void __launch_bounds__(kThreads)
    stated_down_few_kernel(const __grid_constant__ Params p, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  order.launch_next();
  if (static_cast<int>(blockIdx.x) >= __ldcg(p.num_tiles)) {
    ptx::wait_for_previous_kernel();
    return;
  }
  const TokenTile tile = tile_at(p, static_cast<int>(blockIdx.x));
  if (p.is_shared(tile)) {
    ptx::wait_for_previous_kernel();
    dequantised::multiply_down<WeightFormat::kFp8>(p, p.shared, tile, 0, p.shared_inner_width,
                                                   *reinterpret_cast<SharedMemory*>(dynamic));
  } else {
    down_few(p, tile, *reinterpret_cast<FewMemory*>(dynamic));
  }
}

void multiply_few_rows(const Params& params, std::int64_t max_tiles, CudaContext& context) {
  const auto shape = [&](std::int64_t pieces) {
    return LaunchShape{.grid = dim3(static_cast<unsigned>(max_tiles), static_cast<unsigned>(pieces)),
                       .threads = kThreads,
                       .shared_bytes = kFewSharedBytes};
  };
  constexpr int kDownPiece = kWarps * dequantised::kWarpDown;
  launch_kernel("multiplying experts in the stated order", stated_inner_few_kernel,
                shape(params.inner_pitch / kActivationGroup), context.stream, params);
  launch_kernel("multiplying experts in the stated order", stated_down_few_kernel,
                shape((params.width + kDownPiece - 1) / kDownPiece), context.stream, params);
}

}  // namespace

std::optional<Reason> why_not_in_stated_order(const ExpertsArgs& args) {
  if (args.sums != ExpertSums::kStated) return "adds up in the stated order, which takes longer; any will do";
  return std::nullopt;
}

void stated_experts(const ExpertsArgs& args, int tile_tokens, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, WeightFormat::kFp8);
  BALEEN_CHECK(args.routed[0].w1.format == WeightFormat::kFp4);
  BALEEN_CHECK_EQ(tile_tokens, kFewStatedTokens);
  const DispatchExtents extents{.num_tokens = args.x.extent(0),
                                .num_selected = args.ids.extent(1),
                                .num_experts = std::ssize(args.routed),
                                .num_shared = args.shared != nullptr ? args.x.extent(0) : 0,
                                .tile_tokens = tile_tokens};
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch =
      lay_out_stated(context.scratch, extents, args.x.extent(1), inner_pitch_of(args), args.split);
  dispatch_experts(args, extents, scratch.plan, scratch.rows, context);
  const Params params = dequantised::params_of(args, extents, scratch, scratch.plan.lists.resident);
  multiply_few_rows(params, extents.max_tiles(), context);
  combine_experts(args, extents, scratch.plan, scratch.y, context);
}

}  // namespace baleen::BALEEN_ARCH
