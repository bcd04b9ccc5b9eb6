/// Dispatch, routed experts, shared expert and combine as one: rows of a tile are multiplied as soon as they
/// have come, outputs go from where they are made to the ranks of their tokens, which add them up. What it
/// means is the sequence, to the bit.                                         (source: parallel MoE 9)
#pragma once

#include "ops/dispatch/combine.h"
#include "ops/dispatch/dispatch.h"
#include "ops/experts/experts.h"

namespace baleen {

/// `routed` takes what `dispatch` brings and has no shared expert, `combine` takes its outputs; `shared` has
/// this rank's tokens and the shared expert alone, its output is `combine.shared`. What lies in between
/// (`arrived`, outputs that return) is not written.
template <>
struct Fusion<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine> {
  static constexpr std::string_view kName = "fused_experts";
  /// The sum of the operations: outputs go through the memory of other ranks all the same.
  [[nodiscard]] static OpCost cost(const DispatchArgs& dispatch, const ExpertsArgs& routed,
                                   const ExpertsArgs& shared, const CombineArgs& combine);
  [[nodiscard]] static CallShape shape(const DispatchArgs& dispatch, const ExpertsArgs& /*routed*/,
                                       const ExpertsArgs& /*shared*/, const CombineArgs& /*combine*/) {
    return {.num_rows = dispatch.x.extent(0)};
  }
};

using FusedExperts = Fusion<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>;

}  // namespace baleen
