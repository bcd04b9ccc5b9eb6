/// A step's estimate for people, for programs, and for a trace viewer.
/// (source: simulation 7)
#pragma once

#include <string>

#include "plots/figure_text.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {

struct Provenance;

/// What was simulated.
struct StepReport {
  const SimulatedModel& model;
  const ParallelPlan& plan;
  const Workload& workload;
  const DeviceProfile& device;
  const StepEstimate& estimate;
  PerformanceModel performance = PerformanceModel::kMeasured;
  std::string advice;  ///< a sentence where memory does not suffice: what would do
};

/// How rows of the table come together: by operation, or by operation and which of them with its shapes.
enum class TableRows : std::uint8_t { kByOperation, kByShape };

/// Time, calls, share, bound, FLOPs and bytes of every operation; totals; what bounds the step; memory by
/// part.
[[nodiscard]] std::string step_table(const StepReport& report, TableRows rows);

/// The same as one line of JSON.
[[nodiscard]] std::string step_json(const StepReport& report);

/// Operations and messages on a time line, a process for each stage, for chrome://tracing and its kin.
[[nodiscard]] std::string chrome_trace(const StepReport& report);

/// A page in one file: plots of the step and around it, and the tables. Runs the plan with other numbers of
/// queries, too.
[[nodiscard]] std::string step_html(const StepReport& report, const Provenance& provenance);

/// "8 queries decode, 4096 positions of context"
[[nodiscard]] std::string workload_text(const Workload& workload);

}  // namespace baleen
