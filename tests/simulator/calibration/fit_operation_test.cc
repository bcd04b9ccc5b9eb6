// Shares of the peaks from times that were made with known shares.

#include "simulator/calibration/fit_operation.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace baleen {
namespace {

/// `scale` tells models of different sizes apart.
OperationSample sample(double num_rows, double compute, double memory, double scale = 1, double calls = 6) {
  return {.operation = "linear",
          .num_rows = num_rows,
          .num_kernels = calls,
          .calls = {{.count = calls, .compute_seconds = compute * scale, .memory_seconds = memory * scale}}};
}

OperationSample timed(OperationSample sample, const EfficiencyPoint& truth) {
  sample.seconds = modelled_seconds(sample, truth);
  return sample;
}

double relative_error(double found, double truth) { return std::abs(found / truth - 1); }

TEST(FitOperation, NothingMeasuredGivesNoPoints) { EXPECT_TRUE(fit_operation({}).points.empty()); }

TEST(FitOperation, SamplesWithoutTimeCallsOrWorkArePassedOver) {
  OperationSample no_time = sample(1, 1e-3, 1e-4);
  OperationSample no_calls = no_time;
  no_calls.seconds = 1;
  no_calls.num_kernels = 0;
  OperationSample no_work = sample(1, 0, 0);
  no_work.seconds = 1;
  EXPECT_TRUE(fit_operation(std::vector{no_time, no_calls, no_work}).points.empty());
}

TEST(FitOperation, OneSampleIsReproducedByTheTermThatIsCloserToItsPeak) {
  OperationSample one = sample(8, 1e-3, 4e-4);
  one.seconds = 6 * 2e-3;
  const OperationEfficiency found = fit_operation(std::span(&one, 1));
  ASSERT_EQ(found.points.size(), 1u);
  EXPECT_EQ(found.points[0].num_rows, 8);
  EXPECT_NEAR(found.points[0].compute, 0.5, 1e-12);
  EXPECT_NEAR(found.points[0].scalar, 0.5, 1e-12);
  EXPECT_NEAR(found.points[0].memory, 0.2, 1e-12);  // what was seen to be reached
  EXPECT_EQ(found.points[0].static_seconds, 0);
  EXPECT_LT(relative_error(modelled_seconds(one, found.points[0]), one.seconds), 1e-9);
}

TEST(FitOperation, CallsOfSeveralShapesAreReproducedTogether) {
  OperationSample mixed = sample(1, 1e-6, 1e-4);
  mixed.calls.push_back({.count = 2, .compute_seconds = 5e-6, .memory_seconds = 2e-5});
  mixed.num_kernels += 2;
  mixed.seconds = 1.5e-3;
  const OperationEfficiency found = fit_operation(std::span(&mixed, 1));
  EXPECT_LT(relative_error(modelled_seconds(mixed, found.points.at(0)), mixed.seconds), 1e-9);
}

TEST(FitOperation, TwoSizesTellLaunchesFromWork) {
  std::vector<OperationSample> samples;
  const double launch = 7e-6;
  const std::vector<EfficiencyPoint> truth{
      {.num_rows = 1, .compute = 0.1, .memory = 0.8, .scalar = 0.1, .static_seconds = launch},
      {.num_rows = 16, .compute = 0.3, .memory = 0.8, .scalar = 0.3, .static_seconds = launch},
      {.num_rows = 256, .compute = 0.6, .memory = 0.8, .scalar = 0.6, .static_seconds = launch}};
  for (const EfficiencyPoint& point : truth) {
    for (const double scale : {1.0, 0.02})
      samples.push_back(timed(sample(point.num_rows, 1e-6 * point.num_rows, 1e-4, scale), point));
  }
  const OperationEfficiency found = fit_operation(samples);
  ASSERT_EQ(found.points.size(), truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    EXPECT_EQ(found.points[i].num_rows, truth[i].num_rows);
    EXPECT_LT(relative_error(found.points[i].static_seconds, launch), 0.01);
  }
  for (const OperationSample& s : samples) {
    const auto point = std::ranges::find(found.points, s.num_rows, &EfficiencyPoint::num_rows);
    EXPECT_LT(relative_error(modelled_seconds(s, *point), s.seconds), 0.005);
  }
}

/// More context: more bytes, hardly more arithmetic. Which one binds, no sample alone could tell.
TEST(FitOperation, SamplesThatDifferTellWhichTermBinds) {
  const EfficiencyPoint truth{
      .num_rows = 4, .compute = 0.01, .memory = 0.5, .scalar = 0.01, .static_seconds = 0};
  std::vector<OperationSample> samples;
  for (const double bytes : {1.0, 10.0, 100.0})
    samples.push_back(timed(sample(4, 1e-5, 2e-4 * bytes), truth));
  const OperationEfficiency found = fit_operation(samples);
  ASSERT_EQ(found.points.size(), 1u);
  for (const OperationSample& s : samples)
    EXPECT_LT(relative_error(modelled_seconds(s, found.points[0]), s.seconds), 1e-6);
  EXPECT_NEAR(found.points[0].memory, 0.5, 1e-6);
  EXPECT_NEAR(found.points[0].compute, 0.01, 1e-6);
}

TEST(FitOperation, AMinorityOfWrongTimesHasNoPull) {
  const EfficiencyPoint truth{
      .num_rows = 4, .compute = 0.4, .memory = 0.2, .scalar = 0.4, .static_seconds = 0};
  std::vector<OperationSample> samples;
  for (const double work : {1.0, 1.2, 1.5, 1.9, 2.2})
    samples.push_back(timed(sample(4, 1e-3 * work, 1e-6), truth));
  samples[1].seconds *= 3;
  samples[3].seconds *= 2;
  EXPECT_NEAR(fit_operation(samples).points.at(0).compute, 0.4, 0.004);
}

/// With noise of 5% on every time, the fit's predictions are off by at most twice that on the fit's own
/// weighted average: it finds an error no larger than the truth's (5%), so the triangle inequality bounds its
/// distance from the truth. A single sample may be off by more. The remaining per cent is for the finite grid
/// of static times.
TEST(FitOperation, NoiseIsNotAmplified) {
  const bool holds = rc::check("fit under noise", [] {
    std::mt19937 random(*rc::gen::arbitrary<unsigned>());
    std::uniform_real_distribution<double> noise(0.95, 1.05), share(0.05, 0.9);
    const double launch = 1e-5 * share(random);
    std::vector<OperationSample> samples;
    for (const double num_rows : {1.0, 8.0, 64.0}) {
      const double compute = share(random);
      const EfficiencyPoint truth{.num_rows = num_rows,
                                  .compute = compute,
                                  .memory = share(random),
                                  .scalar = compute,
                                  .static_seconds = launch};
      for (const double scale : {0.05, 1.0, 1.3, 2.0})
        samples.push_back(timed(sample(num_rows, 2e-5 * num_rows, 4e-4, scale), truth));
    }
    std::vector<OperationSample> noisy = samples;
    for (OperationSample& s : noisy) s.seconds *= noise(random);
    const OperationEfficiency found = fit_operation(noisy);
    RC_ASSERT(found.points.size() == 3u);
    double error = 0, weights = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const OperationSample& s = samples[i];
      const auto point = std::ranges::find(found.points, s.num_rows, &EfficiencyPoint::num_rows);
      const double weight = std::sqrt(noisy[i].seconds);
      error += weight * std::abs(std::log(modelled_seconds(s, *point) / s.seconds));
      weights += weight;
    }
    RC_ASSERT(error / weights < -2 * std::log(0.95) + 0.01);
  });
  EXPECT_TRUE(holds);
}

TEST(FitOperation, AProfileWithFittedTablesIsReadBackAsItWas) {
  DeviceProfile profile;
  profile.name = "measured";
  profile.is_cpu = true;
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kFp32)] = 1e11;
  profile.scalar_ops_per_second = 1e11;
  profile.memory_bytes = 1 << 30;
  profile.memory_bytes_per_second = 1e10;
  profile.efficiency = {.compute = 0.5, .memory = 0.5, .scalar = 0.5};
  std::vector<OperationSample> samples{sample(1, 1e-4, 3e-4), sample(64, 2e-3, 0), sample(512, 0, 1e-3)};
  for (OperationSample& s : samples) s.seconds = 0.0123;
  profile.operations["linear"] = fit_operation(samples);
  const DeviceProfile read = parse_device_profile(profile_text(profile), "test");
  const auto& found = read.operations.at("linear").points;
  const auto& written = profile.operations.at("linear").points;
  ASSERT_EQ(found.size(), written.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].num_rows, written[i].num_rows);
    EXPECT_EQ(found[i].compute, written[i].compute);
    EXPECT_EQ(found[i].memory, written[i].memory);
    EXPECT_EQ(found[i].scalar, written[i].scalar);
    EXPECT_EQ(found[i].static_seconds, written[i].static_seconds);
  }
}

TEST(FitOperation, TimesBeyondThePeaksGiveSharesThatProfilesTake) {
  OperationSample cached = sample(1, 0, 1e-3);
  cached.seconds = 6e-5;
  const EfficiencyPoint point = fit_operation(std::span(&cached, 1)).points.at(0);
  EXPECT_EQ(point.memory, kMaxShare);
}

}  // namespace
}  // namespace baleen
