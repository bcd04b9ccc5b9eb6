/// The kernels of groups_wide.h. A pair of blocks (a cluster) has neighbouring rows of the same tile's
/// weights: each loads its own weights and one half of every slice of the tokens, which TMA writes into both.
/// In a block one thread keeps the ring of slices full and two warpgroups multiply 64 rows each. While tensor
/// cores multiply half of a slice's inputs, a warpgroup brings its weights for the next half to BF16 in other
/// registers. Sums of many tokens are two sets, of which one is added to the output's while the other one is
/// computed.
///
///     inner   8 rows of w1 and the same of w3 a warp, so that a thread has what SwiGLU takes, and a
///             warpgroup a scale group of 32 inner values
///     down    16 rows of w2 a warp
#pragma once

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/tma.h"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/cuda/expert_dequantised.cuh"
#include "ops/experts/cuda/expert_outputs.cuh"
#include "ops/experts/cuda/expert_rows.h"
#include "ops/experts/sm90/groups_wide.h"
#include "ops/matmul/sm90/bf16_kernel.cuh"

namespace baleen::sm90::wide {

inline constexpr int kPair = 2;        // blocks of a cluster
inline constexpr int kWarpgroups = 2;  // that multiply; one more loads
inline constexpr int kMultiplyThreads = kWarpgroups * kWarpgroupThreads;
inline constexpr int kBlockThreads = kMultiplyThreads + kWarpgroupThreads;
inline constexpr int kBlockRows = kWarpgroups * kMmaOutputs;  // of weights
inline constexpr int kBoxRows = kBlockRows / 2;               // of weights, in one copy
inline constexpr int kPieceInner = kBoxRows;                  // inner values of a block
inline constexpr int kWarpgroupInner = kPieceInner / kWarpgroups;
static_assert(kWarpgroupInner == kSmallActivationGroup);
inline constexpr std::uint32_t kMultipliersBarrier = 1;

/// Widths of instructions' tokens, ascending; and how many tokens are at most multiplied at once.
using SmallWidths = std::integer_sequence<int, 16, 32, 48, 64>;
using LargeWidths = std::integer_sequence<int, 64, 80, 96, 112, 128, 144>;
inline constexpr int kMaxAtOnce = 64;

template <WeightFormat kFormat, WideShape kSize, bool kIsDown>
struct Shape {
  static constexpr WeightFormat kWeights = kFormat;
  static constexpr bool kDown = kIsDown;
  static constexpr int kMaxTokens = wide_tile_tokens(kSize), kBoxTokens = wide_box_tokens(kSize);
  static_assert(kMaxTokens % kBoxTokens == 0 && kBoxTokens % kGroupRows == 0);
  using Widths = std::conditional_t<kSize == WideShape::kSmall, SmallWidths, LargeWidths>;

  static constexpr int kWeightRowBytes = kWeights == WeightFormat::kFp4 ? 64 : 128;  // of a slice
  static constexpr int kBoxBytes = kBoxRows * kWeightRowBytes;
  static constexpr int kWeightBytes = 2 * kBoxBytes;
  static constexpr int kHalfTokenBytes = kMaxTokens * kBoxRowBytes;  // half a slice's inputs
  static constexpr int kStageBytes = kWeightBytes + kBoxesPerSlice * kHalfTokenBytes;

  // What leaves the block: inner values of a token, or 16 tokens' sums of a warp.
  static constexpr int kInnerPitch = kPieceInner + 8;
  static constexpr int kSumsPitch = kWarpOutputs + 4, kSumsTokens = 16;
  static constexpr int kStagingBytes =
      kDown ? kWarpgroups * kWarpsPerWarpgroup * kSumsTokens * kSumsPitch * static_cast<int>(sizeof(float))
            : kMaxTokens * kInnerPitch * static_cast<int>(sizeof(Bf16Bits));
  static constexpr int kSlackBytes = 2048;  // alignment, barriers
  static constexpr int kStages =
      std::min(kMaxStages, (kSharedBytes - kStagingBytes - kSlackBytes) / kStageBytes);
  static constexpr int kDynamicBytes = kStages * kStageBytes + kStagingBytes + kGroupBytes;
};

/// What a block has to do of one tile.
template <class S>
struct Item {
  TokenTile tile;
  int place;
  int row;  ///< first one of either box of weights

  [[nodiscard]] __device__ int box_row(int box) const { return S::kDown ? row + box * kBoxRows : row; }
};

/// Calls `run` with each item of this block's pair.
template <class S, class Run>
__device__ __forceinline__ void for_each_item(const WideProducts& p, int rank, Run run) {
  constexpr int kRows = S::kDown ? kBlockRows : kPieceInner;  // of a matrix, in a block
  const int pairs = (p.num_rows + kPair * kRows - 1) / (kPair * kRows);
  const int end_tile = min(p.end_tile, __ldcg(p.num_tiles));
  const int num_items = max(0, end_tile - p.first_tile) * pairs;
  for (int index = static_cast<int>(blockIdx.x) / kPair; index < num_items;
       index += static_cast<int>(gridDim.x) / kPair) {
    const int4 words = __ldcg(reinterpret_cast<const int4*>(p.tiles + p.first_tile + index / pairs));
    Item<S> item;
    item.tile = {words.x, words.y, words.z, words.w};
    item.place = p.are_shared ? 0 : p.places == nullptr ? words.x : __ldcg(p.places + words.x);
    item.row = (index % pairs * kPair + rank) * kRows;
    run(item);
  }
}

/// One thread.
template <class S>
__device__ void load_items(const WideProducts& p, const Ring& ring, int rank) {
  constexpr std::uint16_t kBoth = (1 << kPair) - 1;
  static_assert(kBoxesPerSlice == kPair);
  RingPlace place;
  for_each_item<S>(p, rank, [&](const Item<S>& item) {
    const int boxes = (item.tile.num_rows + S::kBoxTokens - 1) / S::kBoxTokens;
    const auto bytes =
        static_cast<std::uint32_t>(S::kWeightBytes + kPair * boxes * S::kBoxTokens * kBoxRowBytes);
    for (int slice = 0; slice < p.num_slices; ++slice, place.advance(S::kStages)) {
      std::uint64_t* full = ring.barriers.full(place);
      ring.barriers.wait_empty(place);
      ring.barriers.expect(place, bytes);
#pragma unroll
      for (int box = 0; box < 2; ++box) {
        ptx::tma_load(ring.weights(place) + box * S::kBoxBytes, p.weights[box], full,
                      slice * S::kWeightRowBytes, item.box_row(box), item.place);
      }
      std::byte* const half = ring.tokens(place) + rank * S::kHalfTokenBytes;
      for (int box = 0; box < boxes; ++box) {
        ptx::tma_load_multicast(half + box * S::kBoxTokens * kBoxRowBytes, p.tokens, full,
                                (kBoxesPerSlice * slice + rank) * kBoxRowBytes,
                                item.tile.first_row + box * S::kBoxTokens, kBoth);
      }
    }
  });
}

/// The e8m0 codes of the thread's two rows, slice by slice: lane q of four loads those of every fourth slice,
/// which the four then share.
template <class S>
class RowScales {
 public:
  __device__ RowScales(const WideProducts& p, const Item<S>& item, const int (&rows)[2], int lane)
      : num_slices_(p.num_slices), lane_(lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      constexpr int kRowsOfScale = format_layout(S::kWeights).scale_rows;
      const int row = min(rows[i], p.num_rows - 1) / kRowsOfScale;
      const int which = S::kDown ? 0 : i;
      words_[i] =
          reinterpret_cast<const std::uint32_t*>(p.scales[which] + item.place * p.scale_distance[which]) +
          std::int64_t{row} * num_slices_;
    }
    load(0);
  }

  /// Of slice `slice`; slices in order. Behind the last one anything.
  __device__ __forceinline__ void reach(int slice, std::uint32_t (&codes)[2]) {
    const int q = lane_ % 4;
    if (slice % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) own_[i] = next_[i];
      load(slice + 4);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
      codes[i] = __shfl_sync(0xFFFFFFFF, own_[i], lane_ - q + slice % 4) >> (8 * q) & 0xFFu;
  }

 private:
  __device__ void load(int first) {
    const int slice = min(first + lane_ % 4, num_slices_ - 1);
#pragma unroll
    for (int i = 0; i < 2; ++i) next_[i] = __ldcg(words_[i] + slice);
  }

  const std::uint32_t* words_[2];
  int num_slices_, lane_;
  std::uint32_t own_[2], next_[2];
};

/// A thread's part of the weights' operand for half a slice's inputs: four instructions' worth.
struct Operand {
  std::uint32_t fragments[kMmasPerBox][4];
};

/// A thread of a warpgroup that multiplies.
template <class S>
class Multiplier {
  using Reader = dequantised::RowReader<S::kWeights>;

 public:
  __device__ Multiplier(const WideProducts& p, const Ring& ring, std::byte* staging)
      : p_(p), ring_(ring), staging_(staging) {}

  // Functions that are called have their instructions of the tensor cores one after the other.
  __device__ __forceinline__ void multiply(const Item<S>& item) {
    multiply_width(item, typename S::Widths());
  }

 private:
  /// In instructions of the narrowest width that has room.
  template <int... kTokens>
  __device__ __forceinline__ void multiply_width(const Item<S>& item,
                                                 std::integer_sequence<int, kTokens...>) {
    (void)((item.tile.num_rows <= kTokens && (multiply_tile<kTokens>(item), true)) || ...);
  }

  /// What follows from the thread's number is found anew for each tile: kept from one to the next, in code
  /// for all widths, it would take registers that sums need.
  __device__ __forceinline__ void find_itself() {
    int thread = static_cast<int>(threadIdx.x);
    asm volatile("" : "+r"(thread));
    warpgroup_ = thread / kWarpgroupThreads;
    warp_ = thread % kWarpgroupThreads / kWarpThreads;
    lane_ = thread % kWarpThreads;
    group_ = lane_ / 4;
    quad_ = lane_ % 4;
  }

  /// Which row of which box of weights the thread's row g (`lower` 0) or g + 8 of its tile is.
  [[nodiscard]] __device__ int box_of(int lower) const { return S::kDown ? warpgroup_ : lower; }
  [[nodiscard]] __device__ int row_in_box(int lower) const {
    return S::kDown ? warp_ * kWarpOutputs + 8 * lower + group_
                    : warpgroup_ * kWarpgroupInner + warp_ * 8 + group_;
  }

  struct Codes {
    typename Reader::Slice rows[2];
  };
  __device__ __forceinline__ void load(const std::byte* weights, int slice, RowScales<S>& scales,
                                       Codes& to) const {
    std::uint32_t codes[2];
    scales.reach(slice, codes);
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const std::byte* row = weights + box_of(lower) * S::kBoxBytes + row_in_box(lower) * S::kWeightRowBytes;
      auto& own = to.rows[lower];
      own.scale = codes[lower];
      if constexpr (S::kWeights == WeightFormat::kFp4) {
        own.codes = *reinterpret_cast<const uint4*>(row + quad_ * 16);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int chunk = swizzled_chunk<S::kWeightRowBytes>(row_in_box(lower), 2 * quad_ + i);
          own.codes[i] = *reinterpret_cast<const uint4*>(row + chunk * 16);
        }
      }
    }
  }
  /// Of half `half` of a slice.
  __device__ __forceinline__ static void make_operand(const Codes& codes, int half, Operand& to) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      std::uint32_t upper[4], lower[4];
      Reader::dequantise(codes.rows[0], 2 * half + i, nullptr, upper);
      Reader::dequantise(codes.rows[1], 2 * half + i, nullptr, lower);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        std::uint32_t(&fragment)[4] = to.fragments[2 * i + step];
        fragment[0] = upper[2 * step];
        fragment[1] = lower[2 * step];
        fragment[2] = upper[2 * step + 1];
        fragment[3] = lower[2 * step + 1];
#pragma unroll
        for (std::uint32_t& word : fragment) ptx::wgmma_hold(word);
      }
    }
  }

  template <int kTokens>
  __device__ __forceinline__ void multiply_tile(const Item<S>& item) {
    constexpr int kParts = kTokens > kMaxAtOnce ? 2 : 1;
    constexpr int kPartTokens = kTokens / kParts, kPartSums = kPartTokens / 2;
    static_assert(kPartTokens % 8 == 0);
    // What operands were too small by, of weights and tokens.
    constexpr float kFactor = S::kWeights == WeightFormat::kFp4 ? 0x1p79F : 0x1p16F;
    static_assert(dequantised::kFp4Shift + dequantised::kTokenShift == 79 && dequantised::kTokenShift == 16);
    find_itself();

    const int rows[2] = {item.box_row(box_of(0)) + row_in_box(0), item.box_row(box_of(1)) + row_in_box(1)};
    RowScales<S> scales(p_, item, rows, lane_);
    float acc[kParts][kPartSums] = {};
    Operand operands[kBoxesPerSlice];
    Codes codes;
    const auto begin_slice = [&](int slice) {
      ring_.barriers.wait_full(place_);
      load(ring_.weights(place_), slice, scales, codes);
      make_operand(codes, 0, operands[0]);
    };
    begin_slice(0);
    for (int slice = 0; slice < p_.num_slices; ++slice) {
      const int stage = place_.stage;
      const std::byte* const tokens = ring_.tokens(place_);
      place_.advance(S::kStages);
      float sums[kParts][kPartSums];
      // While one half of the inputs is multiplied the weights of the next one become an operand.
#pragma unroll
      for (int half = 0; half < kBoxesPerSlice; ++half) {
        if (half > 0) make_operand(codes, half, operands[half]);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          multiply_operand<kPartTokens>(
              sums[part], operands[half].fragments,
              tokens + half * S::kHalfTokenBytes + part * kPartTokens * kBoxRowBytes, half > 0);
        }
      }
      ptx::wgmma_wait<kParts>();
      hold_operand(operands[0].fragments);
      if (slice + 1 < p_.num_slices) begin_slice(slice + 1);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (part < kParts - 1) {
          ptx::wgmma_wait<1>();
        } else {
          ptx::wgmma_wait<0>();
        }
        hold(sums[part]);
#pragma unroll
        for (int i = 0; i < kPartSums; ++i) acc[part][i] = fmaf(sums[part][i], kFactor, acc[part][i]);
      }
      hold_operand(operands[1].fragments);
      ring_.barriers.template release_to_cluster<kPair>(stage, lane_);
    }
    if constexpr (S::kDown) {
      store_outputs_of<kTokens>(item, reinterpret_cast<const float(&)[kTokens / 2]>(acc));
    } else {
      stage_inner<kTokens>(item, reinterpret_cast<const float(&)[kTokens / 2]>(acc));
      store_inner(item);
    }
  }

  /// acc[i]: token_column(thread, i), rows g (i % 4 < 2) and g + 8: w1 and w3.
  template <int kTokens>
  __device__ __forceinline__ void stage_inner(const Item<S>& item, const float (&acc)[kTokens / 2]) {
    auto* const staged = reinterpret_cast<Bf16Bits*>(staging_);
    const float limit = clamp_limit(p_.swiglu_limit);
    const int column = row_in_box(0);
#pragma unroll
    for (int block = 0; block < kTokens / 8; ++block) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * block + 2 * quad_ + i;
        const float weight = __ldcg(p_.row_weight + item.tile.first_row + min(token, item.tile.num_rows - 1));
        staged[token * S::kInnerPitch + column] =
            activate(acc[4 * block + i], acc[4 * block + 2 + i], limit, weight);
      }
    }
    ptx::named_barrier_sync(kMultipliersBarrier, kMultiplyThreads);
  }

  /// Two lanes have the scale groups of a token's staged values: each quantises its own 32 and brings them to
  /// BF16 again, then they exchange what makes pairs of words.
  __device__ __forceinline__ void store_inner(const Item<S>& item) {
    const int warp_first = (warpgroup_ * kWarpsPerWarpgroup + warp_) * (kWarpThreads / 2);
    for (int first = warp_first; first < item.tile.num_rows; first += kMultiplyThreads / 2) {
      const int token = first + lane_ / 2;
      const bool exists = token < item.tile.num_rows, second = lane_ % 2 != 0;
      const auto* const values = reinterpret_cast<const uint4*>(reinterpret_cast<const Bf16Bits*>(staging_) +
                                                                (exists ? token : first) * S::kInnerPitch +
                                                                lane_ % 2 * kWarpgroupInner);
      float eighths[4][8];
      float amax = 0.0F;
#pragma unroll
      for (int eighth = 0; eighth < 4; ++eighth) {
        unpack_bf16(values[eighth], eighths[eighth]);
#pragma unroll
        for (const float value : eighths[eighth]) amax = fmaxf(amax, fabsf(value));
      }
      const float scale = fp8_scale(amax), inverse = inverse_scale(scale);
      const int q = item.row / kWarpgroupInner % 4;  // of the first lane
      auto* const to = reinterpret_cast<std::uint32_t*>(
          p_.inner + std::int64_t{item.tile.first_row + token} * p_.inner_pitch +
          item.row / kActivationGroup * kActivationGroup);
#pragma unroll
      for (int eighth = 0; eighth < 4; ++eighth) {
        const float(&v)[8] = eighths[eighth];
        const std::uint32_t low = to_e4m3x4(v[0] * inverse, v[1] * inverse, v[2] * inverse, v[3] * inverse);
        const std::uint32_t high = to_e4m3x4(v[4] * inverse, v[5] * inverse, v[6] * inverse, v[7] * inverse);
        std::uint32_t pairs[4];
        dequantised::dequantise_e4m3_words(low, high, pairs, dequantised::token_multiplier(low, high, scale));
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const std::uint32_t even = pairs[2 * step], odd = pairs[2 * step + 1];
          const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFF, second ? even : odd, 1);
          if (!exists) continue;
          *reinterpret_cast<uint2*>(to + wide_word(q, eighth, 2 * step + lane_ % 2)) =
              second ? uint2{other, odd} : uint2{even, other};
        }
      }
    }
    ptx::named_barrier_sync(kMultipliersBarrier, kMultiplyThreads);
  }

  /// acc[i]: token_column(thread, i), rows g (i % 4 < 2) and g + 8 of the warp's.
  template <int kTokens>
  __device__ __forceinline__ void store_outputs_of(const Item<S>& item, const float (&acc)[kTokens / 2]) {
    static_assert(kTokens % S::kSumsTokens == 0);
    auto* const staged = reinterpret_cast<float(*)[S::kSumsPitch]>(staging_) +
                         (warpgroup_ * kWarpsPerWarpgroup + warp_) * S::kSumsTokens;
    const int first_row = item.box_row(warpgroup_) + warp_ * kWarpOutputs;
#pragma unroll
    for (int first = 0; first < kTokens; first += S::kSumsTokens) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < S::kSumsTokens / 2; ++i)
        staged[i / 4 * 8 + 2 * quad_ + i % 2][group_ + i % 4 / 2 * 8] = acc[first / 2 + i];
      __syncwarp();
      const int token = first + lane_ / 2, row = first_row + lane_ % 2 * 8;
      if (token >= item.tile.num_rows || row >= p_.num_rows) continue;
      const auto* const values = reinterpret_cast<const float4*>(&staged[lane_ / 2][lane_ % 2 * 8]);
      store_outputs(p_.y, std::int64_t{item.tile.first_row + token} * p_.num_rows + row, values[0],
                    values[1]);
    }
  }

  const WideProducts& p_;
  const Ring& ring_;
  std::byte* const staging_;
  int warpgroup_, warp_, lane_, group_, quad_;
  RingPlace place_;
};

template <class S>
__global__ void __launch_bounds__(kBlockThreads, 1)
    wide_groups_kernel(const __grid_constant__ WideProducts p, NextAtOnce order) {
  extern __shared__ std::byte dynamic[];
  __shared__ Bf16Barriers barriers;
  const Ring ring{align_to_group(dynamic), barriers, S::kStages, S::kWeightBytes, S::kStageBytes};
  if (threadIdx.x == 0) {
    barriers.init(1, kPair * kWarpgroups * kWarpsPerWarpgroup, S::kStages);
    ptx::fence_mbarrier_init();
    order.launch_next();
  }
  ptx::cluster_sync();
  ptx::wait_for_previous_kernel();
  const int rank = static_cast<int>(ptx::cluster_rank());
  if (threadIdx.x >= kMultiplyThreads) {
    ptx::registers_down_to<24>();
    if (threadIdx.x == kMultiplyThreads) load_items<S>(p, ring, rank);
    __syncwarp();
  } else {
    ptx::registers_up_to<240>();
    Multiplier<S> multiplier(p, ring, ring.stages + S::kStages * S::kStageBytes);
    for_each_item<S>(p, rank, [&](const Item<S>& item) { multiplier.multiply(item); });
  }
  ptx::cluster_sync();  // no block exits while its neighbour still frees its stages
}

template <class S>
void launch(const WideProducts& products, CudaContext& context) {
  constexpr int kRows = kPair * (S::kDown ? kBlockRows : kPieceInner);
  const std::int64_t items =
      std::int64_t{products.end_tile - products.first_tile} * ((products.num_rows + kRows - 1) / kRows);
  const auto pairs = static_cast<unsigned>(std::min<std::int64_t>(items, context.num_sms / kPair));
  launch_kernel("multiplying many tokens' experts", wide_groups_kernel<S>,
                {.grid = dim3(kPair * pairs),
                 .threads = kBlockThreads,
                 .shared_bytes = S::kDynamicBytes,
                 .cluster = kPair},
                context.stream, products);
}

template <bool kDown>
void launch(const WideProducts& products, WeightFormat format, WideShape shape, CudaContext& context) {
  constexpr WeightFormat kFp4 = WeightFormat::kFp4, kFp8x32 = WeightFormat::kFp8x32;
  const bool small = shape == WideShape::kSmall;
  if (products.end_tile <= products.first_tile) return;
  if (format == kFp4) {
    small ? launch<Shape<kFp4, WideShape::kSmall, kDown>>(products, context)
          : launch<Shape<kFp4, WideShape::kLarge, kDown>>(products, context);
  } else {
    BALEEN_CHECK(format == kFp8x32);
    small ? launch<Shape<kFp8x32, WideShape::kSmall, kDown>>(products, context)
          : launch<Shape<kFp8x32, WideShape::kLarge, kDown>>(products, context);
  }
}

}  // namespace baleen::sm90::wide
