// A step's table, JSON line and trace: the same figures, nothing missing, nothing overlapping.

#include "simulator/report/step_report.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/presets.h"
#include "plots/html_page.h"
#include "simulator/report/batch_sweep.h"
#include "simulator/report/cache_plot.h"
#include "simulator/report/operation_sums.h"
#include "simulator/report/step_places.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

struct Case {
  const char* name;
  const char* preset;
  const char* device;
  ParallelPlan plan;
  Workload workload;
};

class StepReports : public testing::TestWithParam<Case> {
 protected:
  StepReports()
      : model_{GetParam().preset, preset_config(GetParam().preset), {}},
        device_(*find_device_profile(GetParam().device)),
        plan_(resolved(GetParam().plan, model_.config)),
        estimate_(estimate_step({model_, plan_}, GetParam().workload, device_)) {}

  [[nodiscard]] StepReport report() const { return {model_, plan_, GetParam().workload, device_, estimate_}; }

  SimulatedModel model_;
  DeviceProfile device_;
  ParallelPlan plan_;
  StepEstimate estimate_;
};

TEST_P(StepReports, SumsHoldEveryOperationOnce) {
  std::size_t num_ops = 0;
  double seconds = 0;
  OpCost cost;
  for (const StageEstimate& stage : estimate_.stages) {
    num_ops += stage.ops.size();
    EXPECT_NEAR(
        stage.compute_seconds + stage.communication_seconds,
        [&] {
          double sum = 0;
          for (const OpEstimate& op : stage.ops) sum += op.time.seconds;
          return sum;
        }(),
        1e-9 * stage.seconds);
    for (const OpEstimate& op : stage.ops) {
      seconds += op.time.seconds;
      cost += op.op.cost;
    }
  }
  for (const TableRows rows : {TableRows::kByOperation, TableRows::kByShape}) {
    std::size_t calls = 0;
    double sum = 0, flops = 0;
    double last = std::numeric_limits<double>::infinity();
    std::set<std::string> names;
    for (const OperationSum& one : operation_sums(estimate_, rows)) {
      EXPECT_TRUE(names.insert(one.name).second) << one.name;
      EXPECT_LE(one.seconds, last);
      last = one.seconds;
      calls += static_cast<std::size_t>(one.calls);
      sum += one.seconds;
      flops += one.flops;
      double bounds = 0;
      for (const double part : one.bound_seconds) bounds += part;
      EXPECT_NEAR(bounds, one.seconds, 1e-9 * one.seconds);
    }
    EXPECT_EQ(calls, num_ops);
    EXPECT_NEAR(sum, seconds, 1e-9 * seconds);
    EXPECT_NEAR(flops, cost.total_flops(), 1e-9 * flops);
  }
}

TEST_P(StepReports, TheTableNamesEveryOperationAndTotal) {
  const std::string table = step_table(report(), TableRows::kByOperation);
  for (const OperationSum& sum : operation_sums(estimate_, TableRows::kByOperation)) {
    EXPECT_NE(table.find("\n" + sum.name + " "), std::string::npos) << sum.name;
    EXPECT_NE(table.find(seconds_text(sum.seconds)), std::string::npos) << sum.name;
  }
  EXPECT_NE(table.find("\nstep            " + seconds_text(estimate_.seconds)), std::string::npos) << table;
  EXPECT_NE(table.find(GetParam().workload.decode ? "time per token" : "first token"), std::string::npos);
  EXPECT_NE(table.find(gigabytes_text(static_cast<double>(estimate_.memory_bytes))), std::string::npos);
  EXPECT_NE(table.find(estimate_.fits() ? "are left" : "too much"), std::string::npos);
}

TEST_P(StepReports, JsonHasTheSameFigures) {
  const Json json = Json::parse(step_json(report()));
  const std::vector<OperationSum> sums = operation_sums(estimate_, TableRows::kByOperation);
  ASSERT_EQ(json["operations"].size(), sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(json["operations"][i]["name"], sums[i].name);
    EXPECT_EQ(json["operations"][i]["seconds"], sums[i].seconds);
    EXPECT_EQ(json["operations"][i]["bytes"], sums[i].bytes);
  }
  EXPECT_EQ(json["step_seconds"], estimate_.seconds);
  EXPECT_EQ(json["fits"], estimate_.fits());
  EXPECT_EQ(json.contains("tpot_seconds"), GetParam().workload.decode);
  EXPECT_NEAR(json["tokens_per_second"].get<double>(),
              json["tokens_per_second_per_device"].get<double>() * static_cast<double>(plan_.num_devices),
              1e-6);
  ASSERT_EQ(json["memory"].size(), estimate_.stages.size());
  for (const Json& stage : json["memory"]) {
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : stage["bytes"].items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(stage["total"], sum);
  }
}

TEST_P(StepReports, TheTraceIsTheStep) {
  const Json trace = Json::parse(chrome_trace(report()));
  std::map<std::int64_t, std::string> processes;
  std::map<std::pair<std::int64_t, std::int64_t>, double> ends;  // of the last span of a process and thread
  std::size_t spans = 0, ops = 0;
  double end = 0, sum = 0, expected = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
      continue;
    }
    ASSERT_EQ(event["ph"], "X");
    ++spans;
    EXPECT_FALSE(event["name"].get<std::string>().empty());
    EXPECT_LT(event["args"]["layer"].get<std::int64_t>(), model_.config.num_blocks());
    const double begin = event["ts"], length = event["dur"];
    double& last = ends[{event["pid"], event["tid"]}];
    EXPECT_GE(begin, last - 1e-6) << event;
    EXPECT_GT(length, 0);
    last = end = std::max(end, begin + length);
    last = begin + length;
    sum += length;
  }
  for (const StageEstimate& stage : estimate_.stages) {
    ops += stage.ops.size();
    expected += 1e6 * (stage.compute_seconds + stage.communication_seconds);
  }
  EXPECT_EQ(processes.size(), estimate_.stages.size());
  EXPECT_EQ(spans, ops);
  EXPECT_NEAR(sum, expected, 1e-9 * sum);
  // One micro-batch on its way through all stages; with several of them the slowest stage may take longer.
  double through = estimate_.send_seconds;
  for (const StageEstimate& stage : estimate_.stages) through += stage.seconds;
  EXPECT_NEAR(end, 1e6 * through, 1e-9 * end);
  EXPECT_LE(through + estimate_.host_seconds, estimate_.seconds * (1 + 1e-12));
  if (estimate_.stages.size() == 1) {
    EXPECT_NEAR(through + estimate_.host_seconds, estimate_.seconds, 1e-12);
  }
}

TEST_P(StepReports, LayersOfAllStagesAreCountedOnce) {
  std::map<StepPlace, std::set<std::int64_t>> layers;
  for (const StageEstimate& stage : estimate_.stages) {
    for (const OpEstimate& op : stage.ops)
      layers[place_of(model_.config, stage.stage, op.op)].insert(model_layer(stage.stage, op.op));
  }
  const auto count = [&](LayerKind kind) {
    return static_cast<std::size_t>(model_.config.num_layers_of(kind));
  };
  EXPECT_EQ(layers[StepPlace::kCsa].size(), count(LayerKind::kCsa));
  EXPECT_EQ(layers[StepPlace::kHca].size(), count(LayerKind::kHca));
  EXPECT_EQ(layers[StepPlace::kSlidingWindow].size(), count(LayerKind::kSlidingWindow));
}

TEST_P(StepReports, BatchesGrowThroughput) {
  const std::vector<BatchPoint> points = batch_sweep(report());
  ASSERT_FALSE(points.empty());
  bool has_own = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    has_own = has_own || points[i].num_queries == GetParam().workload.num_queries;
    if (i == 0) continue;
    EXPECT_GT(points[i].num_queries, points[i - 1].num_queries);
    EXPECT_GE(points[i].memory_bytes, points[i - 1].memory_bytes);
  }
  EXPECT_TRUE(has_own);
  EXPECT_GE(points.back().tokens_per_second_per_device, points.front().tokens_per_second_per_device);
}

TEST_P(StepReports, ThePageIsOneFile) {
  const std::string page = step_html(report(), {});
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  for (const char* elsewhere : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_EQ(page.find(elsewhere), std::string::npos) << elsewhere;
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(page.find("\"inf"), std::string::npos);
}

TEST(CacheBytes, GrowWithContextAndAreSharesOfV32) {
  const std::vector<CacheBytes> all = cache_bytes_by_context({"flash", preset_config("flash"), {}});
  ASSERT_EQ(all.back().num_positions, 1 << 20);
  EXPECT_NEAR(all.back().held, 3'688'172'544, 1);
  EXPECT_NEAR(1e-6 * all.back().read, 479.5, 0.05);
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_GT(all[i].held, all[i - 1].held);
    EXPECT_GT(all[i].read, all[i - 1].read);
    EXPECT_LE(all[i].read, all[i].held * 1.01);
  }
}

TEST(StepReport, NamesThatAreNoTextDoNotEndIt) {
  const SimulatedModel model{"bad\xff\"<name>", preset_config("tiny-flash"), {}};
  const DeviceProfile& device = *find_device_profile("h200");
  const ParallelPlan plan = resolved({.num_devices = 1}, model.config);
  const Workload work{.decode = true};
  const StepEstimate estimate = estimate_step({model, plan}, work, device);
  const StepReport report{model, plan, work, device, estimate};
  EXPECT_TRUE(Json::accept(step_json(report)));
  EXPECT_TRUE(Json::accept(chrome_trace(report)));
  EXPECT_EQ(step_html(report, {}).find("<name>"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Deployments, StepReports,
    testing::Values(
        Case{
            "decode", "flash", "h200", {.num_devices = 4, .tp = 4}, {.context_length = 8192, .decode = true}},
        Case{"prefill",
             "flash",
             "h100",
             {.num_devices = 8, .sequence_parallel = true},
             {.num_queries = 8, .query_length = 2048}},
        Case{"drafts_on_a_pipeline",
             "pro",
             "gb300",
             {.num_devices = 16, .tp = 4, .pp = 2},
             {.num_queries = 64, .context_length = 65536, .decode = true, .num_drafts = 2}},
        Case{"micro_batches",
             "flash",
             "h20",
             {.num_devices = 8, .tp = 2, .dual_batch_overlap = true},
             {.num_queries = 128, .context_length = 4096, .decode = true}},
        Case{"too_large",
             "pro",
             "h800",
             {.num_devices = 2, .tp = 2},
             {.context_length = 100, .decode = true}}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace baleen
