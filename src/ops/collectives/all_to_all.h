/// Columns of every rank's rows go to the rank that works on them: y[j T + t, :] = x_j[t, columns of this
/// rank].
#pragma once

#include "ops/collectives/collective.h"

namespace baleen {

struct AllToAllArgs {
  const RankGroup* group = nullptr;
  ConstActivations<2> x;  ///< [T, R w]; T is the same on all ranks
  Activations<2> y;       ///< [R T, w], of x's type; not x
};

/// All ranks' arguments, in ascending place.
void all_to_all_ref(std::span<const AllToAllArgs> ranks);

namespace ops {

struct AllToAll {
  using Args = AllToAllArgs;
  static constexpr std::string_view kName = "all_to_all";
  [[nodiscard]] static OpCost cost(const AllToAllArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const AllToAllArgs& args) { return {.num_rows = args.x.extent(0)}; }
  static void accesses(const AllToAllArgs& args, Accesses& to);
  [[nodiscard]] static std::vector<RankMessage> messages(const AllToAllArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<AllToAll>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
