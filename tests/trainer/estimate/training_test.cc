#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"
#include "trainer/estimate/muon_cost.h"
#include "trainer/estimate/train_estimate.h"

namespace baleen {
namespace {

constexpr double kPeta = 1e15;

SimulatedModel model(const char* name) { return {name, preset_config(name), {}}; }

ParallelPlan plan(const SimulatedModel& of, ParallelPlan wanted) { return resolved(wanted, of.config); }

TEST(MuonCost, ReleasedModels) {
  const ModelOptimiserCost flash = optimiser_cost(preset_config("flash"));
  EXPECT_NEAR(flash.experts.muon_flops / kPeta, 29.0, 0.05);
  EXPECT_NEAR(flash.dense.muon_flops / kPeta, 0.6, 0.05);
  const ModelOptimiserCost pro = optimiser_cost(preset_config("pro"));
  EXPECT_NEAR((pro.experts.muon_flops + pro.dense.muon_flops) / kPeta, 239, 0.5);
}

TEST(MuonCost, EveryParameterHasOneOptimiser) {
  const ModelConfig config = preset_config("tiny-flash");
  const ModelOptimiserCost cost = optimiser_cost(config);
  std::int64_t trained = 0;
  for (const TensorSpec& tensor : tensor_table(config)) {
    const bool constant = tensor.storage == Storage::kI64 || tensor.name.ends_with("gate.bias");
    if (!constant) trained += tensor.num_elements();
  }
  EXPECT_EQ(cost.experts.muon_parameters + cost.dense.muon_parameters + cost.dense.adamw_parameters, trained);
  EXPECT_EQ(cost.experts.adamw_parameters, 0);
}

TEST(Training, MuonIsAHalfPercentOfAFullStepOfFlash) {
  const SimulatedModel flash = model("flash");
  const TrainEstimate e = estimate_training(flash, plan(flash, {.num_devices = 512, .ep = 64, .pp = 8}), {},
                                            *find_device_profile("h800"));
  EXPECT_NEAR(e.muon_flops / e.model_flops, 0.005, 0.001);
}

TEST(Training, PartsAddUpAndScaleWithTheBatch) {
  const SimulatedModel flash = model("flash");
  const ParallelPlan spread = plan(flash, {.num_devices = 256, .ep = 32, .pp = 8});
  const DeviceProfile& device = *find_device_profile("h800");
  const TrainEstimate one = estimate_training(flash, spread, {.recomputation = 0.5}, device);
  EXPECT_DOUBLE_EQ(one.seconds, one.forward_seconds + one.backward_seconds + one.recompute_seconds +
                                    one.bubble_seconds + one.gradient_seconds + one.optimiser_seconds);
  EXPECT_GT(one.backward_seconds, one.forward_seconds);
  EXPECT_DOUBLE_EQ(one.recompute_seconds, one.forward_seconds / 2);
  const TrainEstimate two = estimate_training(
      flash, spread, {.global_batch_tokens = 2 * TrainingLoad().global_batch_tokens, .recomputation = 0.5},
      device);
  EXPECT_DOUBLE_EQ(two.forward_seconds, 2 * one.forward_seconds);
  EXPECT_DOUBLE_EQ(two.optimiser_seconds, one.optimiser_seconds);
  EXPECT_NEAR(two.bubble_seconds, one.bubble_seconds, 1e-9) << "more micro-batches, the same idle time";
}

TEST(Training, RecomputationTradesTimeForMemory) {
  const SimulatedModel flash = model("flash");
  const ParallelPlan spread = plan(flash, {.num_devices = 256, .ep = 32, .pp = 8});
  const DeviceProfile& device = *find_device_profile("h800");
  const TrainEstimate all = estimate_training(flash, spread, {.recomputation = 1}, device);
  const TrainEstimate none = estimate_training(flash, spread, {.recomputation = 0}, device);
  EXPECT_GT(all.seconds, none.seconds);
  EXPECT_LT(all.memory_bytes, none.memory_bytes);
}

TEST(Training, LoadsThatMeanNothing) {
  const SimulatedModel flash = model("flash");
  const ParallelPlan spread = plan(flash, {.num_devices = 8});
  const DeviceProfile& device = *find_device_profile("h200");
  EXPECT_THROW(static_cast<void>(estimate_training(flash, spread, {.sequence_length = 0}, device)), Error);
  EXPECT_THROW(static_cast<void>(estimate_training(flash, spread, {.global_batch_tokens = 100}, device)),
               Error);
  EXPECT_THROW(static_cast<void>(estimate_training(flash, spread, {.recomputation = 2}, device)), Error);
  EXPECT_THROW(static_cast<void>(estimate_training(flash, spread, {.micro_batch_sequences = 0}, device)),
               Error);
}

}  // namespace
}  // namespace baleen
