// Steps of a small model: every operation is there once, with what it should have computed.

#include "simulator/calibration/step_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "model/presets.h"
#include "model_files/made_up.h"

namespace baleen {
namespace {

constexpr int kRepetitions = 2;

DeviceProfile one_thread() {
  DeviceProfile profile;
  profile.is_cpu = true;
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kFp32)] = 1e11;
  profile.scalar_ops_per_second = 1e11;
  profile.memory_bytes_per_second = 1e10;
  return profile;
}

class MeasuredSteps : public testing::Test {
 protected:
  StepMeasurement measure(const StepSetting& setting) {
    const ModelConfig config = preset_config("tiny-flash");
    ThreadPool pool(1);
    Engine engine(made_up_weights(config, 1, pool),
                  {.num_threads = 1,
                   .max_batch_tokens = setting.num_rows(),
                   .max_sequences = setting.num_sequences,
                   .cache_tokens = setting.num_sequences *
                                   (StepMeter::positions_needed(setting, kRepetitions) + 2 * kPageTokens)});
    const StepMeasurement found = StepMeter(engine, device_).measure(setting, kRepetitions);
    EXPECT_EQ(engine.cache_use().state_slots.in_use, 0);  // sequences are closed
    return found;
  }
  static const OperationSample* find(const StepMeasurement& found, const std::string& name) {
    const auto sample = std::ranges::find(found.samples, name, &OperationSample::operation);
    return sample == found.samples.end() ? nullptr : &*sample;
  }

  DeviceProfile device_ = one_thread();
};

TEST_F(MeasuredSteps, EveryOperationHasTimeAndWork) {
  const StepMeasurement found = measure({.num_sequences = 3, .context = 400});
  for (const OperationSample& sample : found.samples) {
    EXPECT_GT(sample.seconds, 0) << sample.operation;
    EXPECT_GT(sample.num_kernels, 0) << sample.operation;
    EXPECT_EQ(sample.num_rows, 3) << sample.operation;
    EXPECT_FALSE(sample.calls.empty()) << sample.operation;
  }
  for (const char* name :
       {"linear", "experts", "sparse_attention", "compressor", "lm_head", "indexer", "rms_norm"})
    EXPECT_NE(find(found, name), nullptr) << name;
  EXPECT_GE(found.host_seconds, 0);
}

/// Four steps of 5 layers while decoding, one of a prompt.
TEST_F(MeasuredSteps, CallsOfAWindowAreCounted) {
  const auto calls = [](const OperationSample& sample) {
    double count = 0;
    for (const IdealCalls& same : sample.calls) count += same.count;
    return count;
  };
  EXPECT_EQ(calls(*find(measure({.context = 400}), "experts")), 4 * 5);
  EXPECT_EQ(calls(*find(measure({.num_tokens = 16, .context = 400}), "experts")), 5);
}

/// Up to top-k entries are selected without looking at scores, which the contract counts all the same.
TEST_F(MeasuredSteps, AnIndexerThatHasNoChoiceIsNotASample) {
  EXPECT_EQ(find(measure({.num_sequences = 1, .context = 40}), "indexer"), nullptr);
}

/// Norms of prompts, and one of the row whose logits are wanted.
TEST(IdealSamples, AFewRowsBesideDoNotMatter) {
  OpGraph graph;
  for (const double num_rows : {512.0, 512.0, 1.0}) {
    graph.ops.push_back({.name = "rms_norm", .num_rows = num_rows});
    graph.ops.back().cost.scalar_ops = 1e4 * num_rows;
  }
  const std::vector<OperationSample> samples = ideal_samples(std::span(&graph, 1), one_thread());
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].num_rows, 512);
  EXPECT_EQ(samples[0].num_kernels, 2);
}

TEST(IdealSamples, OperationsOfUnevenRowsAreLeftOut) {
  const auto op = [](std::string_view name, double num_rows) {
    GraphOp call{.name = name, .num_rows = num_rows};
    call.cost.scalar_ops = 1e6;
    return call;
  };
  OpGraph graph;
  graph.ops = {op("rms_norm", 4), op("route", 4), op("rms_norm", 1), op("route", 4)};
  const std::vector<OperationSample> samples = ideal_samples(std::span(&graph, 1), one_thread());
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].operation, "route");
  ASSERT_EQ(samples[0].calls.size(), 1u);
  EXPECT_EQ(samples[0].calls[0].count, 2);
  EXPECT_DOUBLE_EQ(samples[0].calls[0].compute_seconds, 1e-5);
}

}  // namespace
}  // namespace baleen
