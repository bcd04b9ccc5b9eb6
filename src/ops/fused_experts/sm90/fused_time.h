/// Predicted time of dispatch, experts and combine as one on Hopper, by the shape of its products kernel.
/// Plain C++: predictions need neither toolkit nor GPU.
///
/// Two H100s, 128 of Flash's experts on each: 735 and 777 us at 4.5 assignments for each expert (places that
/// stay empty included), 761 and 764 at 6, 843 and 781 at 9 (bench/results/fused-experts-h100-x2.csv has
/// those of the shape that was chosen). All ranks have the same figures, so they choose the same.
#pragma once

#include "ops/fused_experts/fused_experts.h"
#include "ops/operation/kernel_time.h"

namespace baleen::sm90 {

/// The experts' weights come once, and beside them each assignment takes some time where tiles are small,
/// each expert where they are large.
[[nodiscard]] inline double fused_seconds(const DispatchArgs& dispatch, const ExpertsArgs& routed,
                                          const ExpertsArgs& shared, double seconds_of_assignment,
                                          double seconds_of_expert, const DeviceRates& rates) {
  constexpr double kFlashWeights = 3.0 * 4096 * 2048;  // of the expert that the seconds are of
  constexpr double kMemoryShare = 0.8;
  const WeightMatrix& gate = routed.routed[0].w1;
  const double size = 3.0 * static_cast<double>(gate.rows * gate.cols) / kFlashWeights;
  const double ranks = static_cast<double>(dispatch.placement.stage->size());
  const double assignments = static_cast<double>(routed.x.extent(0)) / ranks;
  const double experts = static_cast<double>(dispatch.placement.num_experts) / ranks;
  return seconds_of(
      {.bytes = expected_experts_cost(routed).weight_bytes + expected_experts_cost(shared).weight_bytes,
       .memory_share = kMemoryShare,
       .fixed_seconds = size * (assignments * seconds_of_assignment + experts * seconds_of_expert),
       .num_launches = 3},
      rates);
}

/// Equal at 5.9 assignments for each expert.
[[nodiscard]] inline double fused_few_seconds(const DispatchArgs& dispatch, const ExpertsArgs& routed,
                                              const ExpertsArgs& shared, const CombineArgs& /*combine*/,
                                              const DeviceTraits& traits) {
  return fused_seconds(dispatch, routed, shared, 0.199e-6, 0, traits.rates);
}
[[nodiscard]] inline double fused_many_seconds(const DispatchArgs& dispatch, const ExpertsArgs& routed,
                                               const ExpertsArgs& shared, const CombineArgs& /*combine*/,
                                               const DeviceTraits& traits) {
  return fused_seconds(dispatch, routed, shared, 0, 1.172e-6, traits.rates);
}

}  // namespace baleen::sm90
