#include "app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/option_ranges.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "trainer/estimate/run_estimate.h"
#include "trainer/estimate/train_estimate.h"
#include "trainer/estimate/training_report.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/run/training_run.h"

namespace baleen {
namespace {

struct SimulatedTrainFlags {
  DeploymentFlags deployment;
  TrainingLoad load;
  std::string config;      ///< file of a run of this program's trainer; empty: a cluster
  std::int64_t step = -1;  ///< which step of that run; -1: the last
  std::string html;
  bool json = false;
};

/// What a run does not take from its file. `given` are the names of all options on the command line.
void check_beside_config(const std::vector<std::string>& given) {
  constexpr std::string_view kBesideConfig[] = {"--config", "--step", "--device", "--num-devices", "--json"};
  for (const std::string& name : given) {
    if (std::ranges::find(kBesideConfig, name) != std::end(kBesideConfig)) continue;
    usage_error(
        "--config and {}: model, batch and plan of a run are its file's, and --num-devices its processes; "
        "leave out {}, or leave out --config to price a step of a cluster",
        name, name);
  }
}

void simulate_run(const SimulatedTrainFlags& flags) {
  const TrainConfig config = load_train_config(flags.config);
  const std::int64_t num_ranks = std::max<std::int64_t>(1, flags.deployment.plan.num_devices);  // 0: not said
  check_supported(config, num_ranks);
  const DeviceProfile device = flags.deployment.load_device();
  const std::int64_t step =
      flags.step < 0 ? config.run.steps - 1 : std::min(flags.step, config.run.steps - 1);
  const RunStepEstimate estimate =
      estimate_run_step(config, pass_options_at(config, step), device, num_ranks);
  const auto num_threads = std::max<std::int64_t>(1, device.is_cpu ? device.num_units : config.run.threads);
  const TrainingMemoryPlan memory = plan_training_memory(config, num_threads, num_ranks);
  fmt::print("{}{}",
             flags.json ? run_estimate_json(config, estimate, memory)
                        : run_estimate_table(config, device, num_ranks, estimate, memory),
             flags.json ? "\n" : "");
  std::fflush(stdout);
  check_fits(memory, device.memory_bytes);
}

void run_train(const SimulatedTrainFlags& flags, const std::vector<std::string>& given) {
  if (!flags.config.empty()) {
    check_beside_config(given);
    return simulate_run(flags);
  }
  const SimulatedModel model = flags.deployment.model.load();
  const DeviceProfile device = flags.deployment.load_device();
  const ParallelPlan plan = flags.deployment.legal_plan(model.config, device);
  const TrainEstimate estimate = estimate_training(model, plan, flags.load, device);
  if (!flags.html.empty()) {
    write_report_file(flags.html, training_html({model, plan, flags.load, device, estimate}, provenance()),
                      "a browser");
  }
  fmt::print("{}{}",
             flags.json ? training_json(estimate) : training_table(model, plan, flags.load, device, estimate),
             flags.json ? "\n" : "");
  if (!estimate.fits()) {
    std::fflush(stdout);
    fail(
        "this step of training does not fit: {:.3f} GB of a device's {:.3f} GB are missing; more devices, "
        "--pp or --ep "
        "share it out",
        1e-9 * static_cast<double>(estimate.memory_bytes - estimate.device_memory_bytes),
        1e-9 * static_cast<double>(estimate.device_memory_bytes));
  }
}

}  // namespace

void add_simulate_train_command(Options& command) {
  constexpr WholeRange kGlobalTokens{1, std::int64_t{1} << 40};
  constexpr WholeRange kStepRange{0, std::int64_t{1} << 40};
  auto flags = std::make_shared<SimulatedTrainFlags>();
  flags->deployment.add_to(command);
  TrainingLoad& load = flags->load;
  const Option config = command.path(
      "--config", flags->config,
      "TOML file of a run: price `baleen train` with it on --num-devices processes; the model, the "
      "batch and everything else are the file's");
  command
      .integer_without_default(
          "--step", flags->step, kStepRange,
          "With --config: the step, counted from 0, whose stage is priced; otherwise the last")
      .needs(config);
  command.integer("--sequence-length", load.sequence_length, kTokensAtLeastOneRange, "Tokens of a sequence");
  command.integer("--global-batch-tokens", load.global_batch_tokens, kGlobalTokens,
                  "Tokens of a step, over all devices");
  command.integer("--micro-batch", load.micro_batch_sequences, {1, 1 << 16},
                  "Sequences that a group computes at a time");
  command.real("--recomputation", load.recomputation, kShareRange, "Share of forward that backward repeats");
  command.flag("--bf16-gradients", load.bf16_gradients, "Gradients in BF16 instead of float32");
  command.real("--imbalance", load.imbalance, kImbalanceRange,
               "Tokens of the rank that gets most over the mean");
  command.path("--html", flags->html, "Write a page with plots and tables, for a browser");
  command.flag("--json", flags->json, "One JSON line");
  command.action([flags](const std::vector<std::string>& given) { run_train(*flags, given); });
}

}  // namespace baleen
