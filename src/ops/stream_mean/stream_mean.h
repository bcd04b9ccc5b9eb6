/// Mean of the residual streams, into a part of wider rows: out[r, first_column + j] = bf((1 / n) sum_s
/// streams[r, s, j]), added up in float32 in the order of streams. What a DSpark head takes of a layer.
/// (source: releases specification 2.1)
#pragma once

#include <cstdint>

#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"

namespace baleen {

struct StreamMeanArgs {
  ConstActivations<3> streams;                 ///< [R, n, d]
  Precision precision = Precision::kReleased;  ///< `exact` does not round
  Activations<2> out;                          ///< [R, width]; columns that are not written keep their values
  std::int64_t first_column = 0;               ///< d columns from here on are written
};

void stream_mean_ref(const StreamMeanArgs& args);
void stream_mean_cpu(const StreamMeanArgs& args, CpuContext& context);
[[nodiscard]] OpCost stream_mean_cost(const StreamMeanArgs& args);

namespace ops {

struct StreamMean {
  using Args = StreamMeanArgs;
  static constexpr std::string_view kName = "stream_mean";
  [[nodiscard]] static OpCost cost(const StreamMeanArgs& args) { return stream_mean_cost(args); }
  [[nodiscard]] static CallShape shape(const StreamMeanArgs& args);
  static void accesses(const StreamMeanArgs& args, Accesses& to);
  static void check(const StreamMeanArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<StreamMean>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
