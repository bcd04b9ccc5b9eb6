/// Every rank gets what each rank has: rows one below the other, or columns side by side.
#pragma once

#include "ops/collectives/collective.h"

namespace baleen {

struct AllGatherArgs {
  const RankGroup* group = nullptr;
  ConstActivations<2> x;  ///< this rank's part, dense; may be its rows of y
  /// [R] rows of y that each member has. Empty: members have columns, all as wide as x but for the last one,
  /// which has what is left of y.
  std::span<const RowRange> rows;
  Activations<2> y;  ///< dense, of x's type
};

/// All ranks' arguments, in ascending place. No y overlaps with an x.
void all_gather_ref(std::span<const AllGatherArgs> ranks);

namespace ops {

struct AllGather {
  using Args = AllGatherArgs;
  static constexpr std::string_view kName = "all_gather";
  [[nodiscard]] static OpCost cost(const AllGatherArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const AllGatherArgs& args) { return {.num_rows = args.x.extent(0)}; }
  static void accesses(const AllGatherArgs& args, Accesses& to);
  [[nodiscard]] static std::vector<RankMessage> messages(const AllGatherArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<AllGather>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
