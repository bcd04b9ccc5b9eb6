#include "app/commands.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/option_ranges.h"
#include "app/options.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"
#include "hardware/machine_memory.h"
#include "trainer/estimate/run_estimate.h"
#include "trainer/estimate/training_shares.h"
#include "trainer/measure/training_step_times.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/run/training_run.h"

namespace baleen {
namespace {

struct BenchTrainFlags {
  std::string config;
  std::int64_t num_threads = 0;
  bool json = false;
};

/// What the same step should take and what was resident, beside what is measured.
struct Prediction {
  RunStepEstimate step;
  TrainingMemoryPlan memory;  ///< what `baleen train` takes with the same file
};

void print_json(const TrainingStepTimes& times, const Prediction& predicted, int num_threads, double peak) {
  nlohmann::ordered_json json{{"processor", processor_name()},
                              {"threads", num_threads},
                              {"instruction_set", instruction_set_in_use()},
                              {"fma_flops_per_second", peak},
                              {"tokens", times.num_tokens},
                              {"parts", nlohmann::ordered_json::array()}};
  for (const PartTime& part : times.parts) {
    json["parts"].push_back({{"part", part.name},
                             {"seconds", part.seconds},
                             {"predicted_seconds", predicted.step.seconds_of(part.name)},
                             {"flops", part.flops}});
    if (part.flops > 0 && part.seconds > 0)
      json["parts"].back()["share_of_fma_peak"] = part.flops / part.seconds / peak;
  }
  json["planned_memory_bytes"] = predicted.memory.total_bytes();
  json["resident_bytes"] = peak_resident_bytes();
  fmt::print("{}\n", json.dump());
}

void print_table(const TrainingStepTimes& times, const Prediction& predicted, int num_threads, double peak) {
  double seconds = 0, flops = 0, predicted_seconds = 0;
  for (const PartTime& part : times.parts) {
    seconds += part.seconds;
    flops += part.flops;
    predicted_seconds += predicted.step.seconds_of(part.name);
  }
  fmt::print("{}, {} threads, {}: {:.1f} GFLOP/s multiply-add\n", processor_name(), num_threads,
             instruction_set_in_use(), 1e-9 * peak);
  fmt::print("a step of {} tokens, without the MTP block\n", times.num_tokens);
  fmt::print("{:<34}{:>12}{:>12}{:>9}{:>9}\n", "part", "ms", "predicted", "share", "of FMA");
  const auto print_row = [&](const std::string& name, double part_seconds, double part_predicted,
                             double part_flops) {
    fmt::print("{:<34}{:>12.3f}{:>12.3f}{:>8.1f}%{:>9}\n", name, 1e3 * part_seconds, 1e3 * part_predicted,
               100 * part_seconds / seconds,
               part_flops > 0 && part_seconds > 0
                   ? fmt::format("{:.0f}%", 100 * part_flops / part_seconds / peak)
                   : "");
  };
  for (const PartTime& part : times.parts)
    print_row(part.name, part.seconds, predicted.step.seconds_of(part.name), part.flops);
  print_row("all", seconds, predicted_seconds, flops);
  fmt::print("\nof a run with this file: {}of this measurement: {:.1f} MB resident at most\n",
             predicted.memory.table(), 1e-6 * static_cast<double>(peak_resident_bytes()));
}

void run_bench_train(const BenchTrainFlags& flags) {
  const TrainConfig config = load_train_config(flags.config);
  check_supported(config);
  const std::int64_t wanted = flags.num_threads != 0 ? flags.num_threads : config.run.threads;
  const int num_threads = wanted == 0 ? default_num_threads() : static_cast<int>(wanted);
  ThreadPool pool(num_threads);
  const MachineLimits limits = measure_machine_limits(pool);
  const double peak = limits.fma_flops_per_second;
  const Prediction predicted{estimate_run_step(config, measured_pass_options(config),
                                               training_profile(limits, config.run.precision, pool)),
                             plan_training_memory(config, num_threads)};
  const TrainingStepTimes times = measure_step(config, pool);
  flags.json ? print_json(times, predicted, num_threads, peak)
             : print_table(times, predicted, num_threads, peak);
}

}  // namespace

void add_bench_train_command(Options& command) {
  const auto flags = std::make_shared<BenchTrainFlags>();
  command.path("config", flags->config, "TOML file of the run; its data is not read").required();
  command.integer_without_default("--threads,-t", flags->num_threads, kThreadsRange,
                                  "In the place of run.threads");
  command.flag("--json", flags->json, "One JSON line instead of a table");
  command.action([flags] { run_bench_train(*flags); });
}

}  // namespace baleen
