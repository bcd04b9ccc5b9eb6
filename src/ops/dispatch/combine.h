/// The experts' outputs return to the tokens' ranks, which add them up.                     (source: parallel
/// MoE 2, "Combine order")
///
///     out[t] = bf( sum over chosen experts in ascending id of y_e[t] + shared[t] )          float32 sums
///
/// An expert whose inner width is split returns float32 partial sums, which are added in ascending rank and
/// rounded to y_e. Without such splits the result is that of one rank to the bit, whatever the number of
/// ranks.
#pragma once

#include "ops/dispatch/dispatch.h"

namespace baleen {

struct CombineArgs {
  ExpertRanks placement;
  ConstActivations<2> y;                     ///< [M, d] of the rows that the dispatch brought
  const DispatchedRows* received = nullptr;  ///< that dispatch
  View<const std::int32_t, 2> ids;           ///< [T, k] that the tokens of this rank were sent by
  ConstActivations<2> shared;                ///< [T, d]; empty: no shared expert
  Precision precision = Precision::kReleased;
  DispatchWay way = DispatchWay::kAssignments;  ///< how that dispatch sent
  Activations<2> out;                           ///< [T, d]
};

/// All ranks' arguments, in ascending place.
void combine_ref(std::span<const CombineArgs> ranks);

namespace ops {

struct Combine {
  using Args = CombineArgs;
  static constexpr std::string_view kName = "combine";
  /// Of the additions; before them go the messages.
  [[nodiscard]] static OpCost cost(const CombineArgs& args);
  /// A token's gradient goes to each of its experts as it is: the messages alone.
  [[nodiscard]] static OpCost backward_cost(const CombineArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const CombineArgs& args) { return {.num_rows = args.out.extent(0)}; }
  static void accesses(const CombineArgs& args, Accesses& to);
  [[nodiscard]] static std::vector<RankMessage> messages(const CombineArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Combine>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
