/// What a step of a deployment takes: every operation's time, the step's, and the memory of the fullest
/// device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hardware/device_profile.h"
#include "simulator/cost/engram_reads.h"
#include "simulator/cost/host_copies.h"
#include "simulator/cost/plan_ranks.h"
#include "simulator/cost/rank_memory.h"
#include "simulator/cost/time_model.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

struct OpEstimate {
  GraphOp op;
  OpTime time;
  double start_seconds = 0;      ///< since its stage began
  std::int64_t micro_batch = 0;  ///< that it works on
};

struct StageEstimate {
  Stage stage;
  std::vector<OpEstimate> ops;       ///< sorted by rising start
  double compute_seconds = 0;        ///< what operations take
  double communication_seconds = 0;  ///< what messages take
  double seconds = 0;                ///< what both take, as they overlap
  double send_seconds = 0;           ///< what streams to the next stage take, in none of these
  RankMemory memory;
};

struct StepEstimate {
  std::vector<StageEstimate> stages;
  double send_seconds = 0;  ///< between stages
  double host_seconds = 0;
  double seconds = 0;             ///< how long a step takes until its tokens are there
  double tokens = 0;              ///< processed by all devices in that time
  double tokens_out = 0;          ///< tokens of these that clients get: decoding
  std::int64_t memory_bytes = 0;  ///< what the fullest device holds
  std::int64_t device_memory_bytes = 0;

  [[nodiscard]] bool fits() const { return memory_bytes <= device_memory_bytes; }
};

/// Figures of operations come from the profile's tables, those of this program's kernels without one from the
/// predictions of their variants, or all of them from the device's own shares of the peaks.
enum class PerformanceModel : std::uint8_t { kMeasured, kAnalytic };

/// `workload` valid. Stages of a pipeline work on as many micro-batches as there are stages, when
/// there are queries enough.
[[nodiscard]] StepEstimate estimate_step(const PlanRanks& ranks, const Workload& workload,
                                         const DeviceProfile& device,
                                         PerformanceModel performance = PerformanceModel::kMeasured);

/// Time of one stage over any batch, for callers that keep the shapes. `host`: experts that do not lie on the
/// device; `tables`: likewise tables of n-grams.
[[nodiscard]] StageEstimate estimate_stage(const RankModel& model, const RankBatch& batch,
                                           const Workload& workload, const DeviceProfile& device,
                                           const HostExperts& host = {}, const EngramReads& tables = {},
                                           PerformanceModel performance = PerformanceModel::kMeasured);

/// Those that a rank with this memory has.
[[nodiscard]] HostExperts host_experts(const RankModel& model, const RankMemory& memory,
                                       const DeviceProfile& device);

}  // namespace baleen
