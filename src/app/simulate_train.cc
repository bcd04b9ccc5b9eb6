#include "app/simulate_train.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "app/option_ranges.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "simulator/report/training_report.h"
#include "simulator/training/train_estimate.h"

namespace baleen {
namespace {

struct TrainFlags {
  DeploymentFlags deployment;
  TrainingLoad load;
  std::string html;
  bool json = false;
};

void run_train(const TrainFlags& flags) {
  const SimulatedModel model = flags.deployment.model.load();
  const DeviceProfile device = flags.deployment.load_device();
  const ParallelPlan plan = flags.deployment.legal_plan(model.config);
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

void add_simulate_train_command(Options& simulate) {
  constexpr WholeRange kGlobalTokens{1, std::int64_t{1} << 40};
  auto flags = std::make_shared<TrainFlags>();
  Options command = simulate.command("train", "Time and memory of a step of training");
  flags->deployment.add_to(command);
  TrainingLoad& load = flags->load;
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
  command.action([flags] { run_train(*flags); });
}

}  // namespace baleen
