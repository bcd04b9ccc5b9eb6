#include "app/simulate_train.h"

#include <fmt/format.h>

#include <memory>

#include "app/provenance.h"
#include "app/report_file.h"
#include "app/simulation_flags.h"
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
}

}  // namespace

void add_simulate_train_command(CLI::App& simulate) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = simulate.add_subcommand("train", "Time and memory of a step of training");
  flags->deployment.add_to(*command);
  TrainingLoad& load = flags->load;
  command->add_option("--sequence-length", load.sequence_length, "Tokens of a sequence")
      ->capture_default_str();
  command->add_option("--global-batch-tokens", load.global_batch_tokens, "Tokens of a step, over all devices")
      ->capture_default_str();
  command
      ->add_option("--micro-batch", load.micro_batch_sequences, "Sequences that a group computes at a time")
      ->capture_default_str();
  command->add_option("--recomputation", load.recomputation, "Share of forward that backward repeats")
      ->capture_default_str();
  command->add_flag("--bf16-gradients", load.bf16_gradients, "Gradients in BF16 instead of float32");
  command->add_option("--imbalance", load.imbalance, "Tokens of the rank that gets most over the mean")
      ->capture_default_str();
  command->add_option("--html", flags->html, "Write a page with plots and tables, for a browser");
  command->add_flag("--json", flags->json, "One JSON line");
  command->callback([flags] { run_train(*flags); });
}

}  // namespace baleen
