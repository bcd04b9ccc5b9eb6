// A step of this program's own trainer, priced.
#include "trainer/estimate/run_estimate.h"

#include <gtest/gtest.h>

#include "model/presets.h"
#include "trainer/graph/model.h"
#include "trainer/optimiser/parameter_groups.h"
#include "trainer/optimiser/tensor_homes.h"
#include "trainer/run/training_run.h"

namespace baleen {
namespace {

constexpr double kPeak = 1e11;

/// A processor whose memory is free of cost, so that seconds are arithmetic over the peak.
DeviceProfile processor() {
  DeviceProfile profile{.name = "test", .is_cpu = true};
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kFp32)] = kPeak;
  profile.scalar_ops_per_second = 1e30;
  profile.memory_bytes_per_second = 1e30;
  profile.efficiency = {.compute = 1, .memory = 1, .scalar = 1, .static_seconds = 0};
  profile.links = {{.size = 8, .bytes_per_second = 1e9}};
  return profile;
}

TrainConfig config() {
  TrainConfig config;
  config.model = preset_config("tiny-flash");
  config.run.steps = 10;
  config.run.recompute = false;
  config.data.sequence_length = 128;
  config.data.batch_rows = 8;
  config.data.micro_batch_rows = 2;
  return config;
}

RunStepEstimate estimate(const TrainConfig& config, std::int64_t step = 9, std::int64_t num_ranks = 1) {
  return estimate_run_step(config, pass_options_at(config, step), processor(), num_ranks);
}

TEST(RunEstimate, IsTheArithmeticOfItsOperationsAndOfMuon) {
  const TrainConfig run = config();
  const std::vector<std::int64_t> lengths{128, 128};
  double flops = 0;
  for (const PassOperation& op : record_pass(run.model, lengths, pass_options_at(run, 9)).operations)
    flops += 4 * (op.forward.matrix_flops() + op.backward.matrix_flops());
  for (const TensorSpec& tensor : training_table(run.model, false)) {
    const ParameterGroup group = parameter_group(tensor, run);
    if (group.rule == UpdateRule::kMuon) flops += update_flops(tensor, group);
  }
  const RunStepEstimate step = estimate(run);
  EXPECT_NEAR(step.seconds(), flops / kPeak, 1e-9 * flops / kPeak);
  double counted = 0;
  for (const RunPartEstimate& part : step.parts) counted += part.matrix_flops;
  EXPECT_DOUBLE_EQ(counted, flops);
}

TEST(RunEstimate, RecomputationRepeatsTheForwardOfTheMainModelsBlocks) {
  TrainConfig run = config();
  const RunStepEstimate kept = estimate(run);
  run.run.recompute = true;
  const RunStepEstimate again = estimate(run);
  const double blocks = kept.seconds_of("attention, forward") + kept.seconds_of("experts, forward") +
                        kept.seconds_of("mixing, forward");
  EXPECT_NEAR(again.seconds() - kept.seconds(), blocks, 1e-9 * blocks);
  EXPECT_DOUBLE_EQ(kept.seconds_of("forward again for the backward"), 0);
}

TEST(RunEstimate, FollowsTheStagesOfARun) {
  TrainConfig run = config();
  run.indexer = {.dense_steps = 2, .warmup_steps = 2};
  const RunStepEstimate dense = estimate(run, 0), warm_up = estimate(run, 2), sparse = estimate(run, 4);
  EXPECT_LT(dense.seconds_of("attention, forward"), sparse.seconds_of("attention, forward"));
  EXPECT_GT(warm_up.seconds_of("attention, backward"), 0) << "of the indexers";
  EXPECT_LT(warm_up.seconds_of("attention, backward"), dense.seconds_of("attention, backward"));
  EXPECT_EQ(warm_up.seconds_of("experts, backward"), 0);
  EXPECT_LT(warm_up.seconds_of("Muon"), sparse.seconds_of("Muon"));
}

TEST(RunEstimate, OptimisersAndProcesses) {
  TrainConfig run = config();
  const RunStepEstimate one = estimate(run), two = estimate(run, 9, 2);
  EXPECT_DOUBLE_EQ(two.seconds_of("experts, backward"), one.seconds_of("experts, backward") / 2);
  EXPECT_DOUBLE_EQ(two.seconds_of("Muon"), one.seconds_of("Muon") / 2);
  EXPECT_EQ(one.seconds_of("messages between processes"), 0);
  EXPECT_GT(two.seconds_of("messages between processes"), 0);
  run.optimizer.matrices = MatrixOptimizer::kAdamW;
  EXPECT_EQ(estimate(run).seconds_of("Muon"), 0);
}

}  // namespace
}  // namespace baleen
