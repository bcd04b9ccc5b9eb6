#include "app/bench_train.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/option_ranges.h"
#include "app/options.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"
#include "trainer/measure/training_step_times.h"
#include "trainer/run/training_run.h"

namespace baleen {
namespace {

struct BenchTrainFlags {
  std::string config;
  std::int64_t num_threads = 0;
  bool json = false;
};

void print_json(const TrainingStepTimes& times, int num_threads, double peak) {
  nlohmann::ordered_json json{{"processor", processor_name()},
                              {"threads", num_threads},
                              {"instruction_set", instruction_set_in_use()},
                              {"fma_flops_per_second", peak},
                              {"tokens", times.num_tokens},
                              {"parts", nlohmann::ordered_json::array()}};
  for (const PartTime& part : times.parts) {
    json["parts"].push_back({{"part", part.name}, {"seconds", part.seconds}, {"flops", part.flops}});
    if (part.flops > 0 && part.seconds > 0)
      json["parts"].back()["share_of_fma_peak"] = part.flops / part.seconds / peak;
  }
  fmt::print("{}\n", json.dump());
}

void print_table(const TrainingStepTimes& times, int num_threads, double peak) {
  double seconds = 0, flops = 0;
  for (const PartTime& part : times.parts) {
    seconds += part.seconds;
    flops += part.flops;
  }
  fmt::print("{}, {} threads, {}: {:.1f} GFLOP/s multiply-add\n", processor_name(), num_threads,
             instruction_set_in_use(), 1e-9 * peak);
  fmt::print("a step of {} tokens, without the MTP block\n", times.num_tokens);
  fmt::print("{:<34}{:>12}{:>9}{:>9}\n", "part", "ms", "share", "of FMA");
  const auto print_row = [&](const std::string& name, double part_seconds, double part_flops) {
    fmt::print("{:<34}{:>12.3f}{:>8.1f}%{:>9}\n", name, 1e3 * part_seconds, 100 * part_seconds / seconds,
               part_flops > 0 && part_seconds > 0
                   ? fmt::format("{:.0f}%", 100 * part_flops / part_seconds / peak)
                   : "");
  };
  for (const PartTime& part : times.parts) print_row(part.name, part.seconds, part.flops);
  print_row("all", seconds, flops);
}

void run_bench_train(const BenchTrainFlags& flags) {
  const TrainConfig config = load_train_config(flags.config);
  check_supported(config);
  const std::int64_t wanted = flags.num_threads != 0 ? flags.num_threads : config.run.threads;
  const int num_threads = wanted == 0 ? default_num_threads() : static_cast<int>(wanted);
  ThreadPool pool(num_threads);
  const double peak = measure_machine_limits(pool).fma_flops_per_second;
  const TrainingStepTimes times = measure_step(config, pool);
  flags.json ? print_json(times, num_threads, peak) : print_table(times, num_threads, peak);
}

}  // namespace

void add_bench_train_command(Options& bench) {
  const auto flags = std::make_shared<BenchTrainFlags>();
  Options command = bench.command("train", "Time of each part of a training step, of a run's file");
  command.path("config", flags->config, "TOML file of the run; its data is not read").required();
  command.integer_without_default("--threads,-t", flags->num_threads, kThreadsRange,
                                  "In the place of run.threads");
  command.flag("--json", flags->json, "One JSON line instead of a table");
  command.action([flags] { run_bench_train(*flags); });
}

}  // namespace baleen
