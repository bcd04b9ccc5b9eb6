// Experts in the stated order, tiles of few tokens. A warp has 16 weight rows (inner: 8 of w1 and the same of
// w3) and all slices of them, so that its lanes add up in order. Weights come to shared memory by a ring of
// each warp's own, some slices ahead.
//
// Tokens come as e4m3 codes and are cut into digits once for all warps of a block.
//
// Columns of an instruction: digits 0 and 1 of token t are columns 2 t and 2 t + 1, so that one lane has both
// sums; digit 2 is column 2 t of a second instruction.
#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/expert_dispatch_kernel.cuh"
#include "ops/experts/cuda/stated_launch.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace stated;
using dispatch_kernels::load_word;
using dispatch_kernels::QuantisedWord;

constexpr int kWarps = kStages, kThreads = kWarps * kWarpLanes;
static_assert(kThreads == dequantised::kThreads);
constexpr int kFewStages = 4;  ///< slices under way
constexpr int kFewChunk = 8;   ///< slices of tokens in shared memory
constexpr int kFewTokens = kFewStatedTokens;

/// Digits of the tokens of a tile. Places of missing tokens hold anything: the sums of their columns are not
/// read.
struct FewColumns {
  std::uint8_t lower[kSliceGroups][kFewTokens][2][32];
  std::uint8_t upper[kSliceGroups][kFewTokens][32];
};

struct FewMemory {
  WeightStage weights[kWarps][kFewStages];
  alignas(16) FewColumns columns[kFewChunk];
  float scales[kFewChunk][kFewTokens];
  alignas(16) Bf16Bits inner[kFewTokens][kActivationGroup];
};

/// A warp's ring of stages.
class FewWeights {
 public:
  __device__ FewWeights(const WeightRows& rows, WeightStage (&stages)[kFewStages])
      : rows_(rows), stages_(stages) {
    for (int slice = 0; slice < kFewStages - 1; ++slice) copy(slice);
  }

  /// Waits for slice `slice`, the next one.
  __device__ const WeightStage& wait(int slice) {
    ptx::cp_async_wait<kFewStages - 2>();
    __syncwarp();
    copy(slice + kFewStages - 1);
    return stages_[slice % kFewStages];
  }
  [[nodiscard]] __device__ int num_slices() const { return rows_.num_slices(); }

 private:
  __device__ void copy(int slice) {
    if (slice < rows_.num_slices()) rows_.copy(slice, stages_[slice % kFewStages]);
    ptx::cp_async_commit();
  }

  WeightRows rows_;
  WeightStage (&stages_)[kFewStages];
};

/// What a lane has of a slice of a token: e4m3 codes of four inputs in the first word, or these as BF16.
struct RawInputs {
  uint2 words;
  float scale;
};

/// Rows that `dequantised::quantise_inner` or the dispatch wrote.
struct CodeRows {
  const Fp8Rows& rows;
  std::int64_t pitch;
  int first_row;

  [[nodiscard]] __device__ RawInputs load(int token, int slice) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    const std::int64_t row = first_row + token;
    const auto* words =
        reinterpret_cast<const std::uint32_t*>(rows.codes + row * pitch + std::int64_t{slice} * kSliceWidth);
    return {{__ldcg(words + lane), 0}, __ldcg(rows.scales + slice * rows.scale_stride + row)};
  }
  [[nodiscard]] __device__ QuantisedWord quantise(const RawInputs& raw) const {
    return {raw.words.x, raw.scale};
  }
  /// Which four inputs of the slice they are.
  [[nodiscard]] __device__ static int input_word() { return stated::input_word(threadIdx.x % kWarpLanes); }
};

/// Tokens as the operation before has left them.
struct TokensOfTile {
  const TokenRows& x;
  const std::int32_t (&tokens)[kFewTokens];

  [[nodiscard]] __device__ RawInputs load(int token, int slice) const {
    const std::int64_t at =
        tokens[token] * x.width + std::int64_t{slice} * kSliceWidth + 4 * (threadIdx.x % kWarpLanes);
    if (x.x_fp8.codes != nullptr) {
      return {{__ldcg(reinterpret_cast<const std::uint32_t*>(x.x_fp8.codes + at)), 0},
              __ldcg(x.x_fp8.scales + slice * x.x_fp8.scale_stride + tokens[token])};
    }
    return {__ldcg(reinterpret_cast<const uint2*>(x.x + at)), 0.0F};
  }
  [[nodiscard]] __device__ QuantisedWord quantise(const RawInputs& raw) const {
    if (x.x_fp8.codes != nullptr) return {raw.words.x, raw.scale};
    float values[4];
    unpack_bf16(raw.words, values);
    const Fp8Piece<4> piece = quantise_fp8_group(values);
    return {piece.codes[0], piece.scale};
  }
  [[nodiscard]] __device__ static int input_word() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
};

/// Rows of a tile on their way to `FewColumns`. A warp takes a slice of a token.
template <class Source>
class FewTokensLoader {
 public:
  __device__ FewTokensLoader(const Source& source, int num_tokens, int num_slices)
      : source_(source), num_tokens_(num_tokens), num_slices_(num_slices) {}

  /// Starts the way of the chunk's slices from `first` on.
  __device__ void load(int first) {
    first_ = first;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      if (exists(item)) raw_[i] = source_.load(item.token, first + item.slice);
    }
  }
  __device__ void store(FewMemory& to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Item item(i);
      if (!exists(item)) continue;
      const QuantisedWord word = source_.quantise(raw_[i]);
      std::uint32_t digits[kDigits];
      to_digits(word.codes, digits);
      const int input = Source::input_word(), group = input / 8, at = input % 8 * 4;
      FewColumns& columns = to.columns[item.slice];
      *reinterpret_cast<std::uint32_t*>(&columns.lower[group][item.token][0][at]) = digits[0];
      *reinterpret_cast<std::uint32_t*>(&columns.lower[group][item.token][1][at]) = digits[1];
      *reinterpret_cast<std::uint32_t*>(&columns.upper[group][item.token][at]) = digits[2];
      const bool nan = __any_sync(kAllLanes, has_nan(word.codes));
      if (threadIdx.x % kWarpLanes == 0) to.scales[item.slice][item.token] = slice_scale(word.scale, nan);
    }
  }

 private:
  static constexpr int kItems = kFewChunk * kFewTokens / kWarps;
  static_assert(kItems * kWarps == kFewChunk * kFewTokens);

  struct Item {
    int token, slice;
    __device__ explicit Item(int i) {
      const int number = i * kWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
      slice = number % kFewChunk;
      token = number / kFewChunk;
    }
  };
  [[nodiscard]] __device__ bool exists(const Item& item) const {
    return item.token < num_tokens_ && first_ + item.slice < num_slices_;
  }

  Source source_;
  int num_tokens_, num_slices_, first_ = 0;
  RawInputs raw_[kItems];
};

/// The lane's outputs of a slice: of rows g and g + 8 and token q, added to `sums`.
__device__ void add_few_slice(const WeightStage& stage, const FewColumns& columns, float token_scale,
                              float (&sums)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  float scales[2][kSliceGroups];
#pragma unroll
  for (int half = 0; half < 2; ++half) group_scales(stage.scales[g + 8 * half], scales[half]);
  float group_sums[2][kSliceGroups];
#pragma unroll
  for (int pair = 0; pair < kSliceGroups; pair += 2) {
    std::uint32_t codes[4];  // rows g and g + 8 of a group, and of the next one
    load_codes(stage, pair, codes);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int group = pair + i;
      std::uint32_t a[4];
      twice_weights(codes[2 * i], a[0], a[2]);
      twice_weights(codes[2 * i + 1], a[1], a[3]);
      const uint2 lower = *reinterpret_cast<const uint2*>(&columns.lower[group][g / 2][g % 2][8 * q]);
      const uint2 upper = *reinterpret_cast<const uint2*>(&columns.upper[group][g / 2][8 * q]);
      std::int32_t lower_sums[4], upper_sums[4];
      ptx::mma_16x8x32_s8(lower_sums, a, lower.x, lower.y, kSumBegin);
      ptx::mma_16x8x32_s8(upper_sums, a, upper.x, upper.y, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        group_sums[half][group] =
            group_sum(lower_sums[2 * half], lower_sums[2 * half + 1], upper_sums[2 * half]);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    sums[half] = add_slice(slice_sum(group_sums[half], scales[half]), token_scale, sums[half]);
}

/// By all threads of a block. `begin()` is called once weights are under way, before tokens are read.
template <class Source, class Begin>
__device__ void multiply_few(FewWeights& weights, FewTokensLoader<Source>& tokens, FewMemory& memory,
                             Begin begin, float (&sums)[2]) {
  const int num_slices = weights.num_slices();
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

/// `weights`: the routing weights of the tile's tokens.
template <class Source>
__device__ void inner_few(const Params& p, const TokenTile& tile, const Source& source, const float* weights,
                          FewMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  FewWeights rows(inner_rows(p, place_of(p, tile), static_cast<int>(blockIdx.y) * kStages + warp),
                  memory.weights[warp]);
  FewTokensLoader<Source> tokens(source, tile.num_rows, rows.num_slices());
  float sums[2];
  multiply_few(
      rows, tokens, memory, [] {}, sums);
  if (q < tile.num_rows) {
    memory.inner[q][first_inner(warp) + g] = stated::activate(sums[0], sums[1], p.swiglu_limit, weights[q]);
  }
  __syncthreads();
  dequantised::quantise_inner(p, tile, memory.inner);
}

/// The inner values are waited for while weights are under way.
__device__ void down_few(const Params& p, const TokenTile& tile, FewMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, q = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int stage = static_cast<int>(blockIdx.y) * kStages + warp;
  FewWeights rows(down_rows(p, place_of(p, tile), stage), memory.weights[warp]);
  FewTokensLoader<CodeRows> tokens({p.inner, p.inner_pitch, tile.first_row}, tile.num_rows,
                                   rows.num_slices());
  float sums[2];
  multiply_few(
      rows, tokens, memory, [] { ptx::wait_for_previous_kernel(); }, sums);
  if (q >= tile.num_rows) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = first_output(stage) + g + 8 * half;
    if (column < p.width) store_output(p.outputs(tile), p.output_place(tile, q, column), sums[half]);
  }
}

/// A tile, as blocks know it that plan for themselves: a lane has a slot.
struct OwnTile {
  TokenTile tile;
  std::int32_t tokens[kFewTokens];
  float weights[kFewTokens];
};

struct FewParams {
  Params products;
  // Where blocks plan for themselves.
  PlanInput input;
  TokenRows x;
  const float* weights = nullptr;
  std::int32_t* row_of_slot = nullptr;
  float* row_weight = nullptr;
};

/// By one warp: tile `index` of the plan that the dispatch would make, in its order; no rows: there is none.
/// `row_of_slot`: where the whole plan is written, or null.
__device__ void plan_tile(const FewParams& p, int index, std::int32_t* row_of_slot, OwnTile& own) {
  const PlanInput& input = p.input;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int num_slots = input.num_tokens * input.num_selected;
  const int expert = lane < num_slots ? input.local_expert(__ldcg(input.ids + lane)) : -1;
  const unsigned same = __match_any_sync(kAllLanes, expert);
  const int count = __popc(same), earlier = __popc(same & ((1u << lane) - 1));
  // Of the experts before this one: rows and tiles, counted in the halves of one word.
  constexpr int kHalf = 16, kLowHalf = (1 << kHalf) - 1;
  const bool computed = expert >= 0 && input.is_computed(expert);
  const int num_tiles = computed ? 0 : (count + kFewTokens - 1) / kFewTokens;
  const int own_counts =
      expert >= 0 && earlier == 0
          ? (count + kRowAlignment - 1) / kRowAlignment * kRowAlignment << kHalf | num_tiles
          : 0;
  int before = 0;
  for (int other = 0; other < num_slots; ++other) {
    const int counts = __shfl_sync(kAllLanes, own_counts, other);
    before += __shfl_sync(kAllLanes, expert, other) < expert ? counts : 0;
  }
  const int first_row = before >> kHalf, first_tile = input.num_shared_tiles() + (before & kLowHalf);
  if (row_of_slot != nullptr && lane < num_slots) row_of_slot[lane] = expert >= 0 ? first_row + earlier : -1;
  if (lane == 0) own.tile.num_rows = 0;
  __syncwarp();
  if (index < input.num_shared_tiles()) {
    const TileCuts cuts(input.num_shared, kFewTokens);
    if (lane == 0) {
      own.tile = {input.num_experts, input.first_shared_row + cuts.begin(index),
                  cuts.begin(index + 1) - cuts.begin(index), 0};
    }
  } else if (expert >= 0 && index >= first_tile && index < first_tile + num_tiles) {
    const TileCuts cuts(count, kFewTokens);
    const int begin = cuts.begin(index - first_tile), end = cuts.begin(index - first_tile + 1);
    if (earlier == 0) own.tile = {expert, first_row + begin, end - begin, 0};
    if (earlier >= begin && earlier < end) {
      own.tokens[earlier - begin] = lane / input.num_selected;
      own.weights[earlier - begin] = __ldcg(p.weights + lane);
    }
  }
}

/// By all threads of a block: rows of the shared expert's tile, as the dispatch would write them. Other
/// blocks write the same.
__device__ void write_shared_rows(const FewParams& p, const TokenTile& tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes,
            warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const Fp8Rows& rows = p.products.x;
  const int num_slices = p.products.width / kSliceWidth;
  for (int item = warp; item < tile.num_rows * num_slices; item += kWarps) {
    const int row = tile.first_row + item / num_slices, slice = item % num_slices;
    const QuantisedWord word = load_word(p.x, row - p.input.first_shared_row, slice);
    auto* const words = reinterpret_cast<std::uint32_t*>(rows.codes + std::int64_t{row} * p.products.width);
    words[slice * kWarpLanes + product_word(lane)] = word.codes;
    if (lane == 0) rows.scales[slice * rows.scale_stride + row] = word.scale;
    if (lane == 0 && slice == 0) p.row_weight[row] = 1.0F;
  }
  __syncthreads();
}

/// A shared expert's tile has no more tokens than a routed one's; the instructions of its products take
/// eight.
using SharedMemory = dequantised::ProductSmem<8>;
constexpr std::int64_t kFewSharedBytes = std::max(sizeof(FewMemory), sizeof(SharedMemory));

/// Block (t, n): piece n, 128 inner values of tile t. `kOwnPlan`: blocks plan for themselves and read tokens
/// where they are; there is no dispatch.
template <bool kOwnPlan>
__global__ void __launch_bounds__(kThreads, 2)
    stated_inner_few_kernel(const __grid_constant__ FewParams few, NextBehindWait order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  __shared__ OwnTile own;
  order.wait().launch_next();
  const Params& p = few.products;
  const int index = static_cast<int>(blockIdx.x);
  if constexpr (kOwnPlan) {
    const bool writes = blockIdx.x == 0 && blockIdx.y == 0;
    if (threadIdx.x < kWarpLanes) plan_tile(few, index, writes ? few.row_of_slot : nullptr, own);
    __syncthreads();
    if (own.tile.num_rows == 0) return;
  } else {
    if (index >= __ldcg(p.num_tiles)) return;
  }
  const TokenTile tile = kOwnPlan ? own.tile : tile_at(p, index);
  const bool is_shared = p.is_shared(tile);
  if (static_cast<int>(blockIdx.y) * kActivationGroup >= (is_shared ? p.shared_inner_width : p.inner_width))
    return;
  if (is_shared) {
    if constexpr (kOwnPlan) write_shared_rows(few, tile);
    dequantised::multiply_inner<WeightFormat::kFp8>(p, p.shared, tile, 0,
                                                    *reinterpret_cast<SharedMemory*>(dynamic));
    return;
  }
  auto& memory = *reinterpret_cast<FewMemory*>(dynamic);
  if constexpr (kOwnPlan) {
    inner_few(p, tile, TokensOfTile{few.x, own.tokens}, own.weights, memory);
  } else {
    inner_few(p, tile, CodeRows{p.x, p.width, tile.first_row}, p.row_weight + tile.first_row, memory);
  }
}

/// Block (t, n): piece n, 256 outputs of tile t. The tokens' experts were known when the inner half let this
/// one begin, so that weights come while that one still runs.
template <bool kOwnPlan>
__global__ void __launch_bounds__(kThreads, 2)
    stated_down_few_kernel(const __grid_constant__ FewParams few, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  __shared__ OwnTile own;
  order.launch_next();
  const Params& p = few.products;
  const int index = static_cast<int>(blockIdx.x);
  bool exists = false;
  if constexpr (kOwnPlan) {
    if (threadIdx.x < kWarpLanes) plan_tile(few, index, nullptr, own);
    __syncthreads();
    exists = own.tile.num_rows > 0;
  } else {
    exists = index < __ldcg(p.num_tiles);
  }
  if (!exists) {
    ptx::wait_for_previous_kernel();
    return;
  }
  const TokenTile tile = kOwnPlan ? own.tile : tile_at(p, index);
  if (p.is_shared(tile)) {
    ptx::wait_for_previous_kernel();
    dequantised::multiply_down<WeightFormat::kFp8>(p, p.shared, tile, 0, p.shared_inner_width,
                                                   *reinterpret_cast<SharedMemory*>(dynamic));
  } else {
    down_few(p, tile, *reinterpret_cast<FewMemory*>(dynamic));
  }
}

}  // namespace

bool plans_in_blocks(const DispatchExtents& extents) { return extents.num_slots() <= kWarpLanes; }

void multiply_few_stated(const ExpertsArgs& args, const DispatchExtents& extents,
                         const ExpertScratch& scratch, CudaContext& context) {
  const DispatchPlan& plan = scratch.plan;
  const FewParams params{.products = dequantised::params_of(args, extents, scratch, plan.lists.resident),
                         .input = PlanInput(args, extents),
                         .x = TokenRows(args),
                         .weights = args.weights.data(),
                         .row_of_slot = plan.row_of_slot,
                         .row_weight = plan.row_weight};
  const bool own = plans_in_blocks(extents);
  const auto launch = [&](auto kernel, std::int64_t pieces) {
    launch_kernel(kStatedLaunch, kernel,
                  {.grid = dim3(static_cast<unsigned>(extents.max_tiles()), static_cast<unsigned>(pieces)),
                   .threads = kThreads,
                   .shared_bytes = kFewSharedBytes},
                  context.stream, params);
  };
  launch(own ? stated_inner_few_kernel<true> : stated_inner_few_kernel<false>,
         inner_pieces(params.products.inner_pitch));
  launch(own ? stated_down_few_kernel<true> : stated_down_few_kernel<false>,
         down_pieces(params.products.width));
}

}  // namespace baleen::BALEEN_ARCH
