/// The first of the three kernels of experts: which token has which expert, and the rows of each expert side
/// by side.
///
/// An *assignment* is a (token, slot) pair. Assignments are ordered by expert, then token, then slot; an
/// assignment's place in that order is its *row* in everything between dispatch and combination. An expert's
/// first row is a multiple of four, as TMA wants the scales of rows; rows left out hold no assignment. The
/// shared expert's rows, one a token, begin at `first_shared_row()`.
/// Rows of one expert are cut into *token tiles*. They make two lists: *resident* ones, those of the shared
/// expert first, and those of experts that are copied to the device's memory meanwhile (`ExpertPlaces`). Of
/// experts that the host computes there are rows and no tiles.
#pragma once

#include <cstdint>

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_request.h"
#include "ops/experts/experts.h"
#include "tensor/fp8_rows.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kRowAlignment = 4;

/// Up to `tile_tokens` rows of one expert; the first is a multiple of kRowAlignment.
struct alignas(16) TokenTile {
  std::int32_t expert;  ///< the number of routed experts: the shared one
  std::int32_t first_row;
  std::int32_t num_rows;
  std::int32_t unused;
};

/// In device memory.
struct TileList {
  TokenTile* tiles = nullptr;  ///< [max_tiles]; null: not wanted
  std::int32_t* count = nullptr;
};
struct TileLists {
  TileList resident, copied;
};

/// What the plan's arrays are sized by.
struct DispatchExtents {
  std::int64_t num_tokens = 0;
  std::int64_t num_selected = 0;  ///< slots of a token
  std::int64_t num_experts = 0;   ///< routed
  std::int64_t num_shared = 0;    ///< tokens of the shared expert; 0: there is none
  int tile_tokens = 0;            ///< a multiple of kRowAlignment

  [[nodiscard]] std::int64_t num_slots() const { return num_tokens * num_selected; }
  [[nodiscard]] std::int64_t first_shared_row() const;
  [[nodiscard]] std::int64_t num_rows() const { return first_shared_row() + num_shared; }
  [[nodiscard]] std::int64_t max_tiles() const;
};

/// Of a call whose tiles have up to `tile_tokens`.
[[nodiscard]] inline DispatchExtents extents_of(const ExpertsArgs& args, int tile_tokens) {
  return {.num_tokens = args.x.extent(0),
          .num_selected = args.ids.extent(1),
          .num_experts = static_cast<std::int64_t>(args.routed.size()),
          .num_shared = args.shared != nullptr ? args.x.extent(0) : 0,
          .tile_tokens = tile_tokens};
}

/// What a plan is made of. Experts are counted from the first one of this rank.
struct PlanInput {
  const std::int32_t* ids = nullptr;  ///< [T, k]
  std::int32_t first_expert = 0;      ///< id of expert 0
  std::int32_t num_tokens = 0;
  std::int32_t num_selected = 0;
  std::int32_t num_experts = 0;
  std::int32_t tile_tokens = 0;
  std::int32_t first_shared_row = 0;
  std::int32_t num_shared = 0;
  const std::int32_t* places = nullptr;    ///< `ExpertPlaces::of_expert`
  const std::int32_t* copied = nullptr;    ///< `ExpertPlaces::copied`
  const std::int32_t* computed = nullptr;  ///< `HostExpertState::computed`; null: the host computes none

  PlanInput() = default;
  PlanInput(const ExpertsArgs& args, const DispatchExtents& extents)
      : ids(args.ids.data()),
        first_expert(static_cast<std::int32_t>(args.first_expert)),
        num_tokens(static_cast<std::int32_t>(extents.num_tokens)),
        num_selected(static_cast<std::int32_t>(extents.num_selected)),
        num_experts(static_cast<std::int32_t>(extents.num_experts)),
        tile_tokens(extents.tile_tokens),
        first_shared_row(static_cast<std::int32_t>(extents.first_shared_row())),
        num_shared(static_cast<std::int32_t>(extents.num_shared)),
        places(args.places.of_expert),
        copied(args.places.copied),
        computed(host_computes(args) ? args.places.slots.host.state->computed : nullptr) {}

  [[nodiscard]] constexpr int num_shared_tiles() const {
    return (num_shared + tile_tokens - 1) / tile_tokens;
  }
  /// -1: padding, or an expert of another rank.
  [[nodiscard]] constexpr int local_expert(std::int32_t id) const {
    const std::int32_t expert = id - first_expert;
    return id >= 0 && expert >= 0 && expert < num_experts ? expert : -1;
  }
  /// Whether the host computes expert `expert` of this rank; reads the device's memory.
  [[nodiscard]] constexpr bool is_computed(int expert) const {
    return computed != nullptr && computed[expert] != 0;
  }
  /// Whether expert `expert` of this rank lies in the host's memory and is copied; reads the device's memory.
  [[nodiscard]] constexpr bool is_copied(int expert) const {
    return copied != nullptr && copied[expert] != places[expert];
  }
};

/// Which of the evenly spaced places of `ExpertPlaces` an expert's weights have; reads the device's memory.
constexpr int expert_place(const std::int32_t* places, int expert) {
  return places == nullptr ? expert : places[expert];
}

/// Arrays in device memory.
struct DispatchPlan {
  TileLists lists;
  std::int32_t* row_of_slot = nullptr;  ///< [T, k]; -1: a padding row's, or an expert's of another rank
  float* row_weight = nullptr;          ///< [num_rows]: routing weights; 1 for the shared expert
  std::int32_t* counters = nullptr;     ///< [num_counters], zeroed here for the kernel that follows
  std::int64_t num_counters = 0;
};

/// y of assignments, [num_rows, d]: rounded, or in float32 where a call has partial sums of an inner width
/// that is split over ranks.
struct ExpertOutputs {
  Bf16Bits* rounded = nullptr;  ///< null: `partial`
  float* partial = nullptr;
  bool rounds = false;  ///< values of `partial`: they are of whole experts
};
/// Of all assignments of a call.
struct AssignmentOutputs {
  ExpertOutputs routed, shared;
};

/// Plans, and writes each assignment's row of x as FP8 codes, in the order that the architecture's products
/// want, to `rows` (codes null: plans only).
void dispatch_experts(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                      const Fp8Rows& rows, CudaContext& context);

/// The last kernel: out[t] = the sum of the rows of token t's assignments in ascending expert, then the
/// shared expert's, in float32, rounded once; partial sums are not rounded.
void combine_experts(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                     const AssignmentOutputs& y, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
