/// Which transport and which back-end compute the experts of a plan, and why not the others: every pair with
/// its reason, before anything is loaded.                                    (source: parallel MoE 3, 6)
///
/// A transport decides how rows reach experts and results return (`expert_transport`), a back-end, which is
/// a variant of the operation `experts`, how their products are computed. They meet in the arguments that
/// the one makes and the other takes, so each is asked about those by what it declares; there is no list of
/// pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/parallel_plan.h"
#include "numeric/dtype.h"
#include "ops/matmul/weight_matrix.h"
#include "ops/operation/forced_variants.h"
#include "ops/operation/variant_report.h"

namespace baleen {

struct ExpertRequest {
  ModelConfig config;         ///< the whole model's
  WeightFormat weights = {};  ///< how routed experts are stored
  ParallelPlan plan;          ///< resolved and legal
  DeviceTraits device;
  Precision precision = Precision::kReleased;
  std::int64_t step_rows = 1;                    ///< rows of each data-parallel group
  std::vector<ForcedVariant> forced_variants{};  ///< back-ends that are forced
};

struct ExpertCandidate {
  const ExpertTransportTraits* transport = nullptr;
  /// `operation`: "experts", `variant`: the back-end, or "" where this program has none for the device.
  VariantVerdict verdict;
  bool refused_transport = false;  ///< the reason is the transport's, for whatever back-end
};

/// All pairs: transports in the order of `expert_transports`, for each the device's back-ends, best first. At
/// most one is chosen; none where the named transport is refused or no back-end takes what it brings.
[[nodiscard]] std::vector<ExpertCandidate> expert_candidates(const ExpertRequest& request);

}  // namespace baleen
