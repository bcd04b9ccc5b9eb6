/// What calls of experts keep in device memory between their launches on every architecture, laid out by an
/// arena or by a counter of bytes; and what all kernels ask of the arguments.
#pragma once

#include <cstdint>

#include "numeric/block_scale.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "tensor/buffer.h"

namespace baleen::BALEEN_ARCH {

/// Device memory of a call between its launches.
struct ExpertScratch {
  DispatchPlan plan;
  Fp8Rows rows;  ///< codes and scales of x
  Fp8Rows inner;
  Bf16Bits* inner_bf16 = nullptr;
  AssignmentOutputs y;
};

/// Counts what an arena would give.
struct ScratchCounter {
  std::int64_t bytes = 0;
  template <class T>
  T* allocate(std::int64_t count) {
    bytes += Arena::bytes_for<T>(count);
    return nullptr;
  }
};

template <class Source>
[[nodiscard]] TileList lay_out_tiles(Source& source, const DispatchExtents& extents) {
  return {.tiles = source.template allocate<TokenTile>(extents.max_tiles()),
          .count = source.template allocate<std::int32_t>(1)};
}

/// `copies`: some experts may be copied.
template <class Source>
[[nodiscard]] DispatchPlan lay_out_plan(Source& source, const DispatchExtents& extents, bool copies,
                                        std::int64_t num_counters) {
  return {.lists = {.resident = lay_out_tiles(source, extents),
                    .copied = copies ? lay_out_tiles(source, extents) : TileList{}},
          .row_of_slot = source.template allocate<std::int32_t>(extents.num_slots()),
          .row_weight = source.template allocate<float>(extents.num_rows()),
          .counters = source.template allocate<std::int32_t>(num_counters),
          .num_counters = num_counters};
}

template <class Source>
[[nodiscard]] Fp8Rows lay_out_rows(Source& source, std::int64_t num_rows, std::int64_t width,
                                   int group = kActivationGroup) {
  const std::int64_t stride = (num_rows + 3) / 4 * 4;
  return {.codes = source.template allocate<std::uint8_t>(num_rows * width),
          .scales = source.template allocate<float>(width / group * stride),
          .scale_stride = stride,
          .group = group};
}

/// One array for all, in float32 where any inner width is split: so kernels have one way to store.
template <class Source>
[[nodiscard]] AssignmentOutputs lay_out_outputs(Source& source, const DispatchExtents& extents,
                                                std::int64_t width, ExpertSplit split) {
  const std::int64_t count = extents.num_rows() * width;
  if (!split.routed && !split.shared) {
    const ExpertOutputs all{.rounded = source.template allocate<Bf16Bits>(count)};
    return {.routed = all, .shared = all};
  }
  float* const partial = source.template allocate<float>(count);
  return {.routed = {.partial = partial, .rounds = !split.routed},
          .shared = {.partial = partial, .rounds = !split.shared}};
}

/// From row to row of inner values: the larger of the inner widths of routed and shared experts.
[[nodiscard]] std::int64_t inner_pitch_of(const ExpertsArgs& args);

/// What all variants ask of the arguments, which have tokens; the shared expert's weights have
/// `shared_format`.
void check_expert_arguments(const ExpertsArgs& args, WeightFormat shared_format);

/// Where kernels find experts' weights once they have come. Tensor copies of weights of Flash's size from
/// pinned memory gave wrong bits now and then, loads by address never did.
[[nodiscard]] const std::int32_t* device_places(const ExpertsArgs& args);

}  // namespace baleen::BALEEN_ARCH
