/// Sums over ranks: `all_reduce` gives every rank all rows, `reduce_scatter` gives each its own.
/// (source: parallel MoE
/// 2, 12)
///
///     y[t] = bf( x_0[t] + x_1[t] + ... + x_(R-1)[t] )      float32, in ascending place of the group; `exact`
/// does not round
///
/// The order is part of the contract: the same plan gives the same bits, and all ranks agree.
#pragma once

#include "ops/collectives/collective.h"

namespace baleen {

struct AllReduceArgs {
  const RankGroup* group = nullptr;
  ConstActivations<2> x;  ///< [T, d] partial sums, float32, dense
  Precision precision = Precision::kReleased;
  Activations<2> y;  ///< [T, d], dense
};

struct ReduceScatterArgs {
  const RankGroup* group = nullptr;
  ConstActivations<2> x;           ///< [T, d] partial sums, float32, dense
  std::span<const RowRange> rows;  ///< [R] of x, that each member gets
  Precision precision = Precision::kReleased;
  Activations<2> y;  ///< this rank's rows of the sum, dense
};

/// All ranks' arguments, in ascending place.
void all_reduce_ref(std::span<const AllReduceArgs> ranks);
void reduce_scatter_ref(std::span<const ReduceScatterArgs> ranks);

namespace ops {

struct AllReduce {
  using Args = AllReduceArgs;
  static constexpr std::string_view kName = "all_reduce";
  [[nodiscard]] static OpCost cost(const AllReduceArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const AllReduceArgs& args) { return {.num_rows = args.x.extent(0)}; }
  static void accesses(const AllReduceArgs& args, Accesses& to);
  [[nodiscard]] static std::vector<RankMessage> messages(const AllReduceArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<AllReduce>> cpu_variants();
};

struct ReduceScatter {
  using Args = ReduceScatterArgs;
  static constexpr std::string_view kName = "reduce_scatter";
  [[nodiscard]] static OpCost cost(const ReduceScatterArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const ReduceScatterArgs& args) {
    return {.num_rows = args.x.extent(0)};
  }
  static void accesses(const ReduceScatterArgs& args, Accesses& to);
  [[nodiscard]] static std::vector<RankMessage> messages(const ReduceScatterArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<ReduceScatter>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
