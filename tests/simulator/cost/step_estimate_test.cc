// Steps of deployments: stages, micro-batches, and what the two never do.

#include "simulator/cost/step_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/presets.h"

namespace baleen {
namespace {

const SimulatedModel& flash() {
  static const SimulatedModel model{"flash", preset_config("flash"), {}};
  return model;
}
const DeviceProfile& h200() { return *find_device_profile("h200"); }

StepEstimate estimate(const ParallelPlan& plan, const Workload& workload) {
  return estimate_step({flash(), resolved(plan, flash().config)}, workload, h200());
}

TEST(StepEstimate, StagesCoverAllLayersOnce) {
  const Workload work{.num_queries = 8, .context_length = 1000, .decode = true};
  for (const std::int64_t pp : {1, 2, 3, 7, 16, 43}) {
    const StepEstimate step = estimate({.num_devices = pp, .pp = pp}, work);
    ASSERT_EQ(std::ssize(step.stages), pp);
    std::int64_t next = 0;
    for (std::size_t i = 0; i < step.stages.size(); ++i) {
      const Stage& stage = step.stages[i].stage;
      EXPECT_EQ(stage.begin, next);
      EXPECT_GT(stage.end, stage.begin);
      EXPECT_EQ(stage.first, i == 0);
      EXPECT_EQ(stage.last, i + 1 == step.stages.size());
      next = stage.end;
    }
    EXPECT_EQ(next, flash().config.num_hidden_layers);
  }
}

TEST(StepEstimate, AStepIsItsOperationsOneAfterTheOther) {
  for (const Workload& work : {Workload{.context_length = 5000, .decode = true},
                               Workload{.num_queries = 3, .query_length = 700, .context_length = 300}}) {
    const StepEstimate step = estimate({.num_devices = 4, .tp = 4}, work);
    double end = 0;
    for (const OpEstimate& op : step.stages.front().ops) {
      EXPECT_DOUBLE_EQ(op.start_seconds, end);
      EXPECT_GT(op.time.seconds, 0) << op.op.name;
      end += op.time.seconds;
    }
    EXPECT_NEAR(step.seconds, end + h200().host_seconds_per_step, 1e-12);
    EXPECT_EQ(step.tokens, static_cast<double>(work.num_queries * work.query_length));
  }
}

TEST(StepEstimate, MicroBatchesOverlapWithoutMeeting) {
  const Workload work{.num_queries = 512, .context_length = 4096, .decode = true};
  const StepEstimate step = estimate({.num_devices = 8, .tp = 1, .dual_batch_overlap = true}, work);
  const StageEstimate& stage = step.stages.front();
  // Neither faster than the busier of device and links, nor slower than without overlap.
  EXPECT_GE(stage.seconds, std::max(stage.compute_seconds, stage.communication_seconds) * (1 - 1e-12));
  EXPECT_LT(stage.seconds, stage.compute_seconds + stage.communication_seconds);
  double device_end = 0, links_end = 0, chain_end[2] = {0, 0};
  std::int64_t count[2] = {0, 0};
  for (const OpEstimate& op : stage.ops) {
    double& resource = op.op.is_collective() ? links_end : device_end;
    double& chain = chain_end[op.micro_batch];
    EXPECT_GE(op.start_seconds, std::max(resource, chain) - 1e-15);
    resource = chain = op.start_seconds + op.time.seconds;
    ++count[op.micro_batch];
  }
  EXPECT_EQ(count[0], count[1]);
  EXPECT_DOUBLE_EQ(stage.seconds, std::max(chain_end[0], chain_end[1]));
}

TEST(StepEstimate, OneQueryCannotBeSplit) {
  const Workload work{.context_length = 4096, .decode = true};
  ParallelPlan plan{.num_devices = 4, .tp = 4};
  const double plain = estimate(plan, work).seconds;
  plan.dual_batch_overlap = true;
  EXPECT_EQ(estimate(plan, work).seconds, plain);
}

TEST(StepEstimate, MoreWorkTakesLonger) {
  double before = 0;
  for (const std::int64_t queries : {1, 2, 16, 128, 1024}) {
    const StepEstimate step =
        estimate({.num_devices = 4}, {.num_queries = queries, .context_length = 2048, .decode = true});
    EXPECT_GE(step.seconds, before);
    before = step.seconds;
  }
  before = 0;
  for (const std::int64_t context : {0, 4096, 65536, 1'000'000}) {
    const double seconds = estimate({.num_devices = 4}, {.context_length = context, .decode = true}).seconds;
    EXPECT_GT(seconds, before);
    before = seconds;
  }
}

TEST(StepEstimate, UnevenExpertsTakeNoLessTime) {
  // On the rank with the most rows, whose kernels are as full as the tokens of all ranks make them.
  for (const std::int64_t ranks : {2, 4, 8, 32}) {
    for (const std::int64_t sequences : {8, 128, 512}) {
      double before = 0;
      for (const double imbalance : {1.0, 1.05, 1.5, 2.0}) {
        const Workload work{.num_queries = sequences * ranks,
                            .context_length = 4096,
                            .decode = true,
                            .imbalance = imbalance,
                            .hash_imbalance = imbalance};
        const DeviceProfile& measured = *find_device_profile("h200-baleen");
        const ParallelPlan plan{.num_devices = ranks, .dp = ranks, .ep = ranks};
        const double seconds =
            estimate_step({flash(), resolved(plan, flash().config)}, work, measured).seconds;
        EXPECT_GE(seconds, before) << ranks << " ranks, " << sequences << " sequences each, " << imbalance;
        before = seconds;
      }
    }
  }
}

TEST(StepEstimate, ADeviceThatDoesEverythingAtOnceLeavesTheStaticCosts) {
  DeviceProfile device = h200();
  for (double& peak : device.peak_flops) peak *= 1e9;
  device.scalar_ops_per_second *= 1e9;
  device.memory_bytes_per_second *= 1e9;
  device.host_seconds_per_step = 0;
  device.operations.clear();
  device.memory_levels.clear();  // copies of experts would be left, too
  const StepEstimate step = estimate_step({flash(), resolved({.num_devices = 1}, flash().config)},
                                          {.context_length = 4096, .decode = true}, device);
  double num_kernels = 0;
  for (const OpEstimate& op : step.stages.front().ops) num_kernels += op.op.num_kernels;
  EXPECT_GT(num_kernels, 900) << "nothing is fused";
  EXPECT_NEAR(step.seconds, num_kernels * device.graph_seconds, 1e-8);
}

TEST(StepEstimate, AnalyticLeavesTheTablesOut) {
  DeviceProfile without = h200();
  without.operations.clear();
  DeviceProfile device = h200();
  device.operations["linear"].points = {
      {.num_rows = 1, .compute = 0.1, .memory = 0.1, .static_seconds = 1e-5}};
  const ParallelPlan plan = resolved({.num_devices = 1}, flash().config);
  const Workload work{.context_length = 4096, .decode = true};
  const double plain = estimate_step({flash(), plan}, work, without).seconds;
  EXPECT_GT(estimate_step({flash(), plan}, work, device).seconds, plain);
  EXPECT_EQ(estimate_step({flash(), plan}, work, device, PerformanceModel::kAnalytic).seconds, plain);
}

}  // namespace
}  // namespace baleen
