/// The products kernel: expert_products.h says what it computes. One thread of a warp copies weights and
/// tokens of items into a ring, groups of warpgroups multiply them (expert_items.cuh).
#pragma once

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/device_flags.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/cuda/expert_rows.h"
#include "ops/experts/sm90/expert_items.cuh"
#include "ops/experts/sm90/expert_weight_scales.cuh"

namespace baleen::sm90 {

/// Whether rows that are waited for may never come.
__device__ inline bool lost_rows(const ExchangedRows& rows) {
  return *static_cast<const volatile std::uint32_t*>(rows.failed) != 0;
}

/// One thread's copies for one group.
template <class Shape, bool kSplit>
class Producer {
 public:
  __device__ Producer(const ExpertProducts& p, ProductMemory<Shape>& memory, int group)
      : p_(p), stages_(memory.stages[group]), group_(memory.groups[group]) {}

  template <WeightFormat kFormat>
  __device__ void produce(const ProductItem& item) {
    constexpr int kSlices = kSlicesPerStage<kFormat>;
    const int inner_width = inner_width_of<kSplit>(p_, item.tile);
    const int num_slices = (item.down ? inner_width : p_.width) / kActivationGroup;
    const int num_stages = (num_slices + kSlices - 1) / kSlices;
    const Fp8RowMaps& tokens = item.down ? p_.inner_maps : p_.x_maps;
    const TokenBoxes boxes(tokens, item.tile.num_rows);
    const std::uint32_t bytes = 2 * Shape::kHalfBytes + kSlices * boxes.slice_bytes();
    const ItemMatrix halves[2] = {item_matrix<Shape, kSplit>(p_, item, 0),
                                  item_matrix<Shape, kSplit>(p_, item, 1)};
    if constexpr (kFormat == WeightFormat::kFp4) prefetch_group_scales(halves, num_slices);

    // Scale groups of `inner`, or rows that come meanwhile.
    const bool counts_rows = Shape::kExchanges && !item.down;
    const std::int32_t* ready_flag =
        (counts_rows ? p_.exchanged.rows_ready : p_.scale_groups_ready) + item.tile_index;
    const int needed = counts_rows ? item.tile.num_rows : inner_width / kActivationGroup;
    const bool is_there = !item.down && !Shape::kExchanges;  // once the kernel before has ended
    bool ready = is_there && dispatched_;
    const auto look = [&] {
      ready = ptx::flag_read(ready_flag) >= needed;
      if constexpr (Shape::kExchanges) ready = ready || lost_rows(p_.exchanged);
      if (ready) ptx::fence_proxy_async_all();
    };
    const auto wait_for_tokens = [&] {
      if (!dispatched_) ptx::wait_for_previous_kernel();
      dispatched_ = true;
      ready = is_there;
      while (!ready) look();
    };
    RingPlace tokens_place = place_;  // of the first stage that has its weights only
    int stage_of_tokens = 0;
    const auto load_tokens_until = [&](int end) {
      for (; stage_of_tokens < end; ++stage_of_tokens) {
        load_tokens<kSlices>(boxes, item, stage_of_tokens, tokens_place);
        tokens_place.advance(Shape::kStages);
      }
    };
    for (int stage = 0; stage < num_stages; ++stage) {
      // A full ring without tokens would wait for itself.
      if (!ready && stage - stage_of_tokens == Shape::kStages) {
        wait_for_tokens();
        load_tokens_until(stage);
      }
      group_.ring.wait_empty(place_);
      group_.ring.expect(place_, bytes);
      load_weights(halves, stage, place_);
      place_.advance(Shape::kStages);
      if (!ready && dispatched_) look();
      if (ready) load_tokens_until(stage + 1);
    }
    if (!ready) wait_for_tokens();
    load_tokens_until(num_stages);
  }

 private:
  /// How a slice of a tile's rows is copied.
  struct TokenBoxes {
    const CUtensorMap* codes;
    const CUtensorMap* scales;
    int rows;  ///< rows that a box has
    int count;
    int scale_count;

    __device__ TokenBoxes(const Fp8RowMaps& maps, int num_tokens) : scales(&maps.scales) {
      const bool small = num_tokens <= Shape::kMaxSmallBoxes * Shape::kSmallBoxTokens;
      codes = small ? &maps.small_codes : &maps.codes;
      rows = small ? Shape::kSmallBoxTokens : Shape::kBoxTokens;
      count = (num_tokens + rows - 1) / rows;
      scale_count = (num_tokens + Shape::kScaleBoxTokens - 1) / Shape::kScaleBoxTokens;
    }
    __device__ std::uint32_t slice_bytes() const {
      return static_cast<std::uint32_t>(count * rows * kActivationGroup +
                                        scale_count * Shape::kScaleBoxTokens *
                                            static_cast<int>(sizeof(float)));
    }
  };

  __device__ static void prefetch_group_scales(const ItemMatrix (&halves)[2], int num_slices) {
    const int row_bytes = num_slices * (kActivationGroup / 32);
#pragma unroll
    for (const ItemMatrix& half : halves) {
      const int rows = min(Shape::kHalfRows, half.num_rows - half.row);
      if (rows <= 0) continue;
      const auto* scales = static_cast<const std::uint8_t*>(half.matrix->scales) +
                           half.place * half.matrix->scale_distance +
                           static_cast<std::int64_t>(half.row) * row_bytes;
      ptx::bulk_prefetch_l2(scales, static_cast<std::uint32_t>(rows * row_bytes));
    }
  }

  __device__ void load_weights(const ItemMatrix (&halves)[2], int stage, const RingPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      ptx::tma_load(stages_[place.stage] + half * Shape::kHalfBytes, halves[half].matrix->map,
                    group_.ring.full(place), stage * Shape::kStageRowBytes, halves[half].row,
                    halves[half].place, ptx::L2Hint::kNormal);
    }
  }

  template <int kSlices>
  __device__ void load_tokens(const TokenBoxes& boxes, const ProductItem& item, int stage,
                              const RingPlace& place) {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      const int scale_group = stage * kSlices + slice;
      std::uint8_t* to = stages_[place.stage] + 2 * Shape::kHalfBytes + slice * Shape::kSliceTokenBytes;
      for (int box = 0; box < boxes.count; ++box) {
        ptx::tma_load(to + box * boxes.rows * kActivationGroup, *boxes.codes, group_.ring.full(place),
                      scale_group * kActivationGroup, item.tile.first_row + box * boxes.rows);
      }
      for (int box = 0; box < boxes.scale_count; ++box) {
        ptx::tma_load(&group_.token_scales[place.stage][slice][box * Shape::kScaleBoxTokens], *boxes.scales,
                      group_.ring.full(place),
                      static_cast<int>(sizeof(float)) * (item.tile.first_row + box * Shape::kScaleBoxTokens),
                      scale_group);
      }
    }
  }

  const ExpertProducts& p_;
  std::uint8_t (&stages_)[Shape::kStages][Shape::kStageBytes];
  GroupMemory<Shape>& group_;
  RingPlace place_;
  bool dispatched_ = Shape::kPlannedTiles == 0;  ///< what the previous kernel writes is there
};

/// One thread of a group of consumers.
template <class Shape, bool kSplit>
class Consumer {
 public:
  __device__ Consumer(const ExpertProducts& p, ProductMemory<Shape>& memory)
      : p_(p),
        group_index_(threadIdx.x / Shape::kGroupThreads),
        stages_(memory.stages[group_index_]),
        group_(memory.groups[group_index_]),
        tables_(memory.tables),
        output_arrays_(memory.output_arrays),
        thread_(threadIdx.x % Shape::kGroupThreads),
        row_in_half_(thread_ / 128 * Shape::kRowTiles * Shape::kTileHalfRows +
                     thread_ % 128 / kWarpLanes * 8 + fragment_row(thread_ % kWarpLanes / 4)) {}

  template <WeightFormat kFormat>
  __device__ void consume(const ProductItem& item) {
    multiply_sized<kFormat>(item, typename Shape::TokenCounts{});
    if (!item.down) finish_inner(item);
  }

 private:
  __device__ void group_barrier() { ptx::named_barrier_sync(1 + group_index_, Shape::kGroupThreads); }

  /// With the narrowest instruction that holds the tile's tokens.
  template <WeightFormat kFormat, int... kTokenCounts>
  __device__ void multiply_sized(const ProductItem& item, std::integer_sequence<int, kTokenCounts...>) {
    const int num_tokens = item.tile.num_rows;
    (void)((num_tokens <= kTokenCounts && (multiply<kFormat, kTokenCounts>(item), true)) || ...);
  }

  /// A step's weights as they lie in memory, with what dequantises them.
  template <WeightFormat kFormat>
  struct PackedWeights {
    uint4 codes[2][kFormat == WeightFormat::kFp4 ? 1 : 2];  ///< codes of either half
    ScaledMagnitudes tables[2];
  };

  template <WeightFormat kFormat>
  __device__ PackedWeights<kFormat> load_weights(WeightScales<Shape, kFormat>& scales, int slot,
                                                 int slice_in_stage, int slice, int row_tile) const {
    const int q = thread_ % 4;
    const int row = row_in_half_ + row_tile * Shape::kTileHalfRows;
    PackedWeights<kFormat> weights;
    if constexpr (kFormat == WeightFormat::kFp4) {
      if (row_tile == 0 && slice_in_stage == 0) scales.reach(slice, slot);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* own = stages_[slot] + half * Shape::kHalfBytes + row * Shape::kStageRowBytes;
      if constexpr (kFormat == WeightFormat::kFp4) {
        weights.codes[half][0] = load_chunk(own, row, 4 * slice_in_stage + q);
        weights.tables[half] = scales.table(tables_, row_tile, half, slice, slice_in_stage, slot);
      } else {
#pragma unroll
        for (int j = 0; j < 2; ++j) weights.codes[half][j] = load_chunk(own, row, 2 * q + j);
      }
    }
    return weights;
  }

  template <WeightFormat kFormat>
  __device__ static void make_fragment(const PackedWeights<kFormat>& weights, WeightFragment& to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kFormat == WeightFormat::kFp4) {
        dequantise_fp4(weights.codes[half][0], weights.tables[half], half, to);
      } else {
#pragma unroll
        for (int j = 0; j < 2; ++j) place_fp8(weights.codes[half][j], j, half, to);
      }
    }
  }

  /// acc += partial times scales of a slice.
  template <WeightFormat kFormat, int kTokens>
  __device__ void promote(float (&acc)[kTokens / 2], const float (&partial)[kTokens / 2],
                          const float* token_scales, float2 weight_factors) {
    const float* own = token_scales + 2 * (thread_ % 4);
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
      const float2 s = *reinterpret_cast<const float2*>(own + 8 * i);
      if constexpr (kFormat == WeightFormat::kFp4) {
        acc[4 * i] = fmaf(partial[4 * i], s.x, acc[4 * i]);
        acc[4 * i + 1] = fmaf(partial[4 * i + 1], s.y, acc[4 * i + 1]);
        acc[4 * i + 2] = fmaf(partial[4 * i + 2], s.x, acc[4 * i + 2]);
        acc[4 * i + 3] = fmaf(partial[4 * i + 3], s.y, acc[4 * i + 3]);
      } else {
        acc[4 * i] = fmaf(partial[4 * i], s.x * weight_factors.x, acc[4 * i]);
        acc[4 * i + 1] = fmaf(partial[4 * i + 1], s.y * weight_factors.x, acc[4 * i + 1]);
        acc[4 * i + 2] = fmaf(partial[4 * i + 2], s.x * weight_factors.y, acc[4 * i + 2]);
        acc[4 * i + 3] = fmaf(partial[4 * i + 3], s.y * weight_factors.y, acc[4 * i + 3]);
      }
    }
  }

  template <WeightFormat kFormat, int kTokens>
  __device__ __forceinline__ void multiply(const ProductItem& item) {
    constexpr int kSlices = kSlicesPerStage<kFormat>;
    constexpr int kSteps = kSlices * Shape::kRowTiles;
    constexpr int kInstructions = 4;           // of 32 inputs, in a slice
    constexpr int kInstructionStep = 32 / 16;  // in the descriptor's units of 16 bytes
    const int num_slices = (item.down ? inner_width_of<kSplit>(p_, item.tile) : p_.width) / kActivationGroup;
    const int num_stages = (num_slices + kSlices - 1) / kSlices;
    const ItemMatrix halves[2] = {item_matrix<Shape, kSplit>(p_, item, 0),
                                  item_matrix<Shape, kSplit>(p_, item, 1)};
    WeightScales<Shape, kFormat> scales(group_, halves, row_in_half_, num_slices);

    float acc[Shape::kRowTiles][kTokens / 2] = {};
    float partial[kTokens / 2] = {};
    // While the tensor core works on a step's weights those of the next one are loaded, and also dequantised
    // where registers suffice for two sets of them and the steps of a stage go in pairs (registers of
    // instructions under way are not to be copied).
    constexpr bool kDequantiseAhead = kSteps % 2 == 0 && kTokens <= Shape::kMaxTokensAhead;
    constexpr bool kLoadAhead =
        kDequantiseAhead || (kFormat == WeightFormat::kFp4 && kTokens <= Shape::kMaxTokensLoadedAhead);
    WeightFragment fragments[2];
    PackedWeights<kFormat> weights;
    // Of step `step` of stage `stage`, which is in `slot`.
    const auto load = [&](int stage, int slot, int step) {
      const int slice_in_stage = step / Shape::kRowTiles;
      weights = load_weights<kFormat>(scales, slot, slice_in_stage, stage * kSlices + slice_in_stage,
                                      step % Shape::kRowTiles);
    };
    group_.ring.wait_full(place_);
    if constexpr (Shape::kExchanges) {
      if (item.down) fetch_outputs(item);
    }
    if constexpr (kLoadAhead) load(0, place_.stage, 0);
    if constexpr (kDequantiseAhead) make_fragment<kFormat>(weights, fragments[0]);
    for (int stage = 0; stage < num_stages; ++stage) {
      const int slot = place_.stage;
      place_.advance(Shape::kStages);
      float2 weight_factors{};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int slice_in_stage = step / Shape::kRowTiles, row_tile = step % Shape::kRowTiles;
        const std::uint64_t tokens = ptx::wgmma_descriptor(
            stages_[slot] + 2 * Shape::kHalfBytes + slice_in_stage * Shape::kSliceTokenBytes,
            ptx::SmemSwizzle::k128B, 1024);
        WeightFragment& fragment = fragments[kDequantiseAhead ? step % 2 : 0];
        if constexpr (!kLoadAhead) load(stage, slot, step);
        if constexpr (!kDequantiseAhead) make_fragment<kFormat>(weights, fragment);
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kInstructions; ++i) {
          ptx::wgmma_e4m3<kTokens>(partial, fragment.a[i], tokens + i * kInstructionStep, i > 0);
        }
        ptx::wgmma_commit();
        int next_stage = stage, next_slot = slot;
        if (step == kSteps - 1 && stage + 1 < num_stages) {
          next_stage = stage + 1;
          next_slot = place_.stage;
          group_.ring.wait_full(place_);
        }
        // After the last step it is not used.
        if constexpr (kLoadAhead) load(next_stage, next_slot, (step + 1) % kSteps);
        if constexpr (kDequantiseAhead) make_fragment<kFormat>(weights, fragments[(step + 1) % 2]);
        if constexpr (kFormat == WeightFormat::kFp8) {
          if (row_tile == 0) weight_factors = scales.factors(stage);
        }
        ptx::wgmma_wait<0>();
#pragma unroll
        for (float& value : partial) ptx::wgmma_hold(value);
        hold_operand(fragment);
        promote<kFormat, kTokens>(acc[row_tile], partial, group_.token_scales[slot][slice_in_stage],
                                  weight_factors);
      }
      group_.ring.release(slot);
    }

#pragma unroll
    for (int row_tile = 0; row_tile < Shape::kRowTiles; ++row_tile) {
      const float factors[2] = {scales.row_factor(row_tile, 0), scales.row_factor(row_tile, 1)};
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) acc[row_tile][i] *= factors[i % 4 / 2];
    }
    if (item.down) {
      if constexpr (kSplit) {
        store_partial<kTokens>(item, acc, p_.is_shared(item.tile) ? p_.y.shared : p_.y.routed);
      } else {
        store_down<kTokens>(item, acc, p_.y.routed.rounded);
      }
    } else {
      stage_inner<kTokens>(item, acc);
    }
  }

  /// Of this thread's columns of sums: column i of 8 j + 2 q + e, i = 2 j + e.
  __device__ int token_of(int i) const { return i / 2 * 8 + thread_ % 4 * 2 + i % 2; }

  /// The activation of gate and up, to `results`.
  template <int kTokens>
  __device__ void stage_inner(const ProductItem& item, const float (&acc)[Shape::kRowTiles][kTokens / 2]) {
    const float limit = clamp_limit(p_.swiglu_limit);
    float routing_weight[kTokens / 4];
#pragma unroll
    for (int i = 0; i < kTokens / 4; ++i) {
      routing_weight[i] =
          __ldcg(p_.row_weight + item.tile.first_row + min(token_of(i), item.tile.num_rows - 1));
    }
#pragma unroll
    for (int i = 0; i < kTokens / 4; ++i) {
#pragma unroll
      for (int row_tile = 0; row_tile < Shape::kRowTiles; ++row_tile) {
        const Bf16Bits activated = activate(acc[row_tile][i / 2 * 4 + i % 2],
                                            acc[row_tile][i / 2 * 4 + i % 2 + 2], limit, routing_weight[i]);
        if (token_of(i) < item.tile.num_rows) result(token_of(i), row_tile) = activated;
      }
    }
    group_barrier();
  }

  /// Where this thread's value of `results` goes.
  __device__ Bf16Bits& result(int token, int row_tile) {
    return group_.results[token * Shape::kPitch + row_in_half_ + row_tile * Shape::kTileHalfRows];
  }

  /// Writes to y in float32. Eight threads of a warp have a sector of 32 bytes.
  template <int kTokens>
  __device__ void store_partial(const ProductItem& item, const float (&acc)[Shape::kRowTiles][kTokens / 2],
                                const ExpertOutputs& y) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = item.row + half * Shape::kHalfRows + row_in_half_;
      if (item.row + half * Shape::kHalfRows >= p_.width) return;
#pragma unroll
      for (int i = 0; i < kTokens / 4; ++i) {
        if (token_of(i) >= item.tile.num_rows) continue;
        float* const to =
            y.partial + static_cast<std::int64_t>(item.tile.first_row + token_of(i)) * p_.width + column;
#pragma unroll
        for (int row_tile = 0; row_tile < Shape::kRowTiles; ++row_tile) {
          const float value = acc[row_tile][i / 2 * 4 + i % 2 + 2 * half];
          to[row_tile * Shape::kTileHalfRows] = y.rounds ? rounded_to_bf16(value) : value;
        }
      }
    }
  }

  /// Begins to bring the places of the tile's outputs, which are known: inner rows are there.
  __device__ void fetch_outputs(const ProductItem& item) {
    constexpr int kPlaces = 4;  // of a copy
    static_assert(kRowAlignment % kPlaces == 0 && Shape::kMaxTokens % kPlaces == 0);
    for (int i = kPlaces * thread_; i < item.tile.num_rows; i += kPlaces * Shape::kGroupThreads)
      ptx::cp_async_16(&group_.outputs[i], p_.exchanged.outputs + item.tile.first_row + i);
    ptx::cp_async_commit();
  }

  /// Rounds to BF16 and writes to y, or wherever the rows' outputs go, through `results`, one half of the
  /// rows after the other.
  template <int kTokens>
  __device__ void store_down(const ProductItem& item, const float (&acc)[Shape::kRowTiles][kTokens / 2],
                             Bf16Bits* y) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kTokens / 4; ++i) {
        if (token_of(i) >= item.tile.num_rows) continue;
#pragma unroll
        for (int row_tile = 0; row_tile < Shape::kRowTiles; ++row_tile) {
          result(token_of(i), row_tile) = bf16_bits(acc[row_tile][i / 2 * 4 + i % 2 + 2 * half]);
        }
      }
      if constexpr (Shape::kExchanges) {
        ptx::cp_async_wait<0>();
        group_barrier();
        send_results(item, item.row + half * Shape::kHalfRows);
      } else {
        group_barrier();
        copy_results(item.tile, y, p_.width, item.row + half * Shape::kHalfRows);
      }
      group_barrier();
    }
  }

  /// `results` to columns [column, column + kHalfRows) of where the tile's outputs go.
  __device__ void send_results(const ProductItem& item, int column) {
    constexpr int kVector = 8;
    constexpr int kVectors = Shape::kHalfRows / kVector;  // of a token
    if (column >= p_.width) return;
    for (int i = thread_; i < item.tile.num_rows * kVectors; i += Shape::kGroupThreads) {
      const int token = i / kVectors, vector = i % kVectors;
      const std::uint32_t array = group_.outputs[token] >> kOutputRowBits,
                          row = group_.outputs[token] & ((1u << kOutputRowBits) - 1);
      // Of a row that was lost it may be anything.
      if (array >= p_.exchanged.num_arrays || row >= p_.exchanged.array_rows) continue;
      Bf16Bits* const to = output_arrays_[array] + static_cast<std::int64_t>(row) * p_.width;
      Shape::put_output(
          reinterpret_cast<uint4*>(to + column + vector * kVector),
          *reinterpret_cast<const uint4*>(group_.results + token * Shape::kPitch + vector * kVector));
    }
  }

  /// `results` to columns [column, column + kHalfRows) of the tile's rows of `to`.
  __device__ void copy_results(const TokenTile& tile, Bf16Bits* to, int width, int column) {
    constexpr int kVector = 8;
    constexpr int kVectors = Shape::kHalfRows / kVector;  // of a token
    if (column >= width) return;
    for (int i = thread_; i < tile.num_rows * kVectors; i += Shape::kGroupThreads) {
      const int token = i / kVectors, vector = i % kVectors;
      *reinterpret_cast<uint4*>(to + static_cast<std::int64_t>(tile.first_row + token) * width + column +
                                vector * kVector) =
          *reinterpret_cast<const uint4*>(group_.results + token * Shape::kPitch + vector * kVector);
    }
  }

  /// Quantises the scale groups of 128 that this item completes, and says so.
  __device__ void finish_inner(const ProductItem& item) {
    const int scale_group = item.row / kActivationGroup;
    if constexpr (Shape::kWholeScaleGroups) {
      quantise_inner(item, scale_group, [&](int token, int column) {
        return *reinterpret_cast<const uint2*>(group_.results + token * Shape::kPitch + column);
      });
    } else {
      copy_results(item.tile, p_.inner_bf16, inner_pitch_of<kSplit>(p_), item.row);
      group_barrier();
      if (thread_ == 0) {
        const int before = ptx::flag_fetch_add(
            p_.parts_done + item.tile_index * (inner_pitch_of<kSplit>(p_) / kActivationGroup) + scale_group,
            1);
        group_.completes_scale_group = before == kActivationGroup / Shape::kHalfRows - 1 ? 1 : 0;
      }
      group_barrier();
      if (group_.completes_scale_group == 0) return;
      quantise_inner(item, scale_group, [&](int token, int column) {
        return __ldcg(reinterpret_cast<const uint2*>(p_.inner_bf16 +
                                                     static_cast<std::int64_t>(item.tile.first_row + token) *
                                                         inner_pitch_of<kSplit>(p_) +
                                                     scale_group * kActivationGroup + column));
      });
    }
    ptx::fence_proxy_async_all();
    group_barrier();
    if (thread_ == 0) ptx::flag_add(p_.scale_groups_ready + item.tile_index, 1);
  }

  /// `load(token, column)`: four BF16 values of the scale group.
  template <class Load>
  __device__ void quantise_inner(const ProductItem& item, int scale_group, Load load) {
    const int lane = thread_ % kWarpLanes;
    for (int token = thread_ / kWarpLanes; token < item.tile.num_rows;
         token += Shape::kGroupThreads / kWarpLanes) {
      const uint2 words = load(token, 4 * lane);
      float values[4];
      unpack_bf16(words, values);
      const Fp8Piece<4> piece = quantise_fp8_group(values);
      const std::int64_t row = item.tile.first_row + token;
      reinterpret_cast<std::uint32_t*>(p_.inner.codes + row * inner_pitch_of<kSplit>(p_) +
                                       scale_group * kActivationGroup)[product_word(lane)] = piece.codes[0];
      if (lane == 0) p_.inner.scales[scale_group * p_.inner.scale_stride + row] = piece.scale;
    }
  }

  const ExpertProducts& p_;
  int group_index_;
  std::uint8_t (&stages_)[Shape::kStages][Shape::kStageBytes];
  GroupMemory<Shape>& group_;
  const ScaledMagnitudes* tables_;
  Bf16Bits* const* output_arrays_;
  int thread_;       ///< number within the group
  int row_in_half_;  ///< where row tile 0 begins
  RingPlace place_;
};

template <class Shape, WeightFormat kRouted, bool kSplit>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    expert_products_kernel(const __grid_constant__ ExpertProducts p, NextAtOnce order) {
  extern __shared__ __align__(1024) std::uint8_t raw[];
  ProductMemory<Shape>& memory = *reinterpret_cast<ProductMemory<Shape>*>(raw);
  const int thread = threadIdx.x;
  if (thread < kMagnitudeTables) memory.tables[thread] = scaled_magnitudes(thread);
  if (thread == 0) {
    for (GroupMemory<Shape>& group : memory.groups) {
      group.ring.init(1 + Shape::kScaleWarps, Shape::kGroupThreads / kWarpLanes);
    }
    ptx::fence_mbarrier_init();
  }
  const TokenTile* tiles = p.tiles;
  const std::int32_t* num_tiles = p.num_tiles;
  order.launch_next();
  if constexpr (Shape::kPlannedTiles > 0) {
    static_assert(Shape::kThreads == kPlanThreads);
    memory.plan.assignments[thread] = 0;
    __syncthreads();
    for_each_assignment(p.plan_input, [&](int, int id) { atomicAdd(&memory.plan.assignments[id], 1); });
    const ExpertPlan expert = plan_expert(p.plan_input, memory.plan.assignments, memory.plan.warp_sums);
    __syncthreads();
    TileLists lists;
    (p.takes_copied ? lists.copied : lists.resident) = {memory.plan.tiles, &memory.plan.num_tiles};
    (void)write_all_tiles(p.plan_input, expert, memory.plan.warp_sums, lists);
    tiles = memory.plan.tiles;
    num_tiles = &memory.plan.num_tiles;
  } else if constexpr (Shape::kExchanges) {
    if (thread < kWarpLanes) {
      while (ptx::flag_read(p.exchanged.plan_ready) == 0) {
      }
      if (thread < p.exchanged.num_arrays)
        memory.output_arrays[thread] = reinterpret_cast<Bf16Bits*>(__ldcg(p.exchanged.arrays + thread));
    }
  } else {
    ptx::wait_for_previous_kernel();
  }
  __syncthreads();

  const ProductItems<Shape, kSplit> items(p, tiles,
                                          Shape::kPlannedTiles > 0 ? *num_tiles : __ldcg(num_tiles));
  const auto for_each_item = [&](int group, auto&& routed, auto&& shared) {
    for (int index = items.first(group); index < items.num_items; index += items.step()) {
      const ProductItem item = items.at(index);
      if (p.is_shared(item.tile)) {
        shared(item);
      } else {
        routed(item);
      }
    }
  };
  if (thread >= Shape::kConsumers) {
    if constexpr (Shape::kProducerRegisters > 0) ptx::registers_down_to<Shape::kProducerRegisters>();
    const int group = (thread - Shape::kConsumers) / kWarpLanes;
    if constexpr (Shape::kScaleWarps > 0) {
      static_assert(Shape::kGroups + Shape::kScaleWarps == 4 && Shape::kPlannedTiles == 0);
      if (group >= Shape::kGroups) {
        ScaleWriter<Shape, kSplit> writer(p, memory);
        for_each_item(
            0, [&](const ProductItem& item) { writer.template produce<kRouted>(item); },
            [&](const ProductItem& item) { writer.template produce<WeightFormat::kFp8>(item); });
        return;
      }
    }
    if (group >= Shape::kGroups || thread % kWarpLanes != 0) return;
    Producer<Shape, kSplit> producer(p, memory, group);
    for_each_item(
        group, [&](const ProductItem& item) { producer.template produce<kRouted>(item); },
        [&](const ProductItem& item) { producer.template produce<WeightFormat::kFp8>(item); });
  } else {
    if constexpr (Shape::kConsumerRegisters > 0) ptx::registers_up_to<Shape::kConsumerRegisters>();
    if constexpr (Shape::kPlannedTiles > 0) ptx::wait_for_previous_kernel();
    Consumer<Shape, kSplit> consumer(p, memory);
    for_each_item(
        thread / Shape::kGroupThreads,
        [&](const ProductItem& item) { consumer.template consume<kRouted>(item); },
        [&](const ProductItem& item) { consumer.template consume<WeightFormat::kFp8>(item); });
    // Who waits for this kernel waits for the one before it, too.
    if constexpr (Shape::kExchanges) ptx::wait_for_previous_kernel();
  }
}

template <class Shape>
void launch_products(const ExpertProducts& products, WeightFormat routed_format, bool split,
                     const ProductLaunch& how, CudaContext& context) {
  constexpr WeightFormat kFp4 = WeightFormat::kFp4, kFp8 = WeightFormat::kFp8;
  const auto kernel_of = [&]<bool kSplit>() {
    return routed_format == kFp4 ? expert_products_kernel<Shape, kFp4, kSplit>
                                 : expert_products_kernel<Shape, kFp8, kSplit>;
  };
  auto kernel = kernel_of.template operator()<false>();
  if constexpr (!Shape::kExchanges) {
    if (split) kernel = kernel_of.template operator()<true>();
  }
  // Before its wait it reads ids, or counters that the kernel before the exchange cleared.
  if constexpr (Shape::kPlannedTiles > 0 || Shape::kExchanges)
    context.stream.expect_earlier_operations_done();
  launch_kernel("multiplying experts", kernel,
                {.grid = dim3(static_cast<unsigned>(how.num_blocks)),
                 .threads = Shape::kThreads,
                 .shared_bytes = sizeof(ProductMemory<Shape>),
                 .early = how.early},
                context.stream, products);
}

template <class Shape>
inline constexpr ProductVariant kVariant{.half_rows = Shape::kHalfRows,
                                         .max_tokens = Shape::kMaxTokens,
                                         .box_tokens = Shape::kBoxTokens,
                                         .small_box_tokens = Shape::kSmallBoxTokens,
                                         .scale_box_tokens = Shape::kScaleBoxTokens,
                                         .max_planned_tiles = Shape::kPlannedTiles,
                                         .whole_scale_groups = Shape::kWholeScaleGroups,
                                         .launch = launch_products<Shape>};

}  // namespace baleen::sm90
