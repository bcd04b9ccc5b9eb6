#include "app/commands.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "app/open_model.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/provenance.h"
#include "app/report_file.h"
#include "app/train_processes.h"
#include "base/interrupt_flag.h"
#include "base/number.h"
#include "hardware/machine_limits.h"
#include "hardware/machine_memory.h"
#include "log/log.h"
#include "parallel/thread_pool.h"
#include "plots/figure_text.h"
#include "trainer/estimate/run_estimate.h"
#include "trainer/estimate/training_shares.h"
#include "trainer/graph/model.h"
#include "trainer/optimiser/parameter_groups.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/post/policy_run.h"
#include "trainer/report/runs_html.h"
#include "trainer/run/export.h"
#include "trainer/run/graph_workers.h"
#include "trainer/run/import.h"
#include "trainer/run/training_run.h"
#include "trainer/serving/serving_drift.h"

namespace baleen {
namespace {

constexpr WholeRange kStepsRange{1, std::int64_t{1} << 40};
constexpr WholeRange kLoraRange{1, 4096};

struct TrainFlags {
  std::vector<std::string> files;  ///< the configuration, or for a report the folders of runs
  std::string from;
  std::string out;
  std::string export_folder;
  std::int64_t num_steps = 0;
  std::int64_t num_threads = 0;
  std::int64_t concurrent = 0;
  std::int64_t lora_rank = 0;
  bool resume = false;
  bool report = false;
  bool drift = false;
  bool force = false;
};

/// Every pass allocates the same arrays: what is freed stays with the process, because new memory costs a
/// page fault each 4 KiB (a tenth of a step).
void keep_freed_memory() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

TrainConfig config_of(const TrainFlags& flags) {
  if (flags.files.size() != 1)
    usage_error("CONFIG: expected one file of a run; found {}; --report takes folders", flags.files.size());
  TrainConfig config = load_train_config(flags.files.front(), flags.from);
  if (!flags.out.empty()) config.run.folder = flags.out;
  if (flags.num_threads != 0) config.run.threads = flags.num_threads;
  if (flags.concurrent != 0) config.run.concurrent_micro_batches = flags.concurrent;
  if (flags.lora_rank != 0) config.lora.rank = flags.lora_rank;
  check_supported(config);
  return config;
}

int num_threads_of(const TrainConfig& config) {
  return config.run.threads == 0 ? default_num_threads() : static_cast<int>(config.run.threads);
}

void print_head(const RunState& state, const TrainConfig& config) {
  log_lines(groups_text(state.adapters ? state.adapters->factors().table() : state.weights.table(), config));
  if (state.step > 0) log_line("continuing after step {}", grouped(state.step));
}

/// What every kind of run needs, and does at its end.
struct RunPlace {
  explicit RunPlace(const TrainConfig& run_config, const TrainingRanks& ranks = {})
      : config(run_config),
        is_first(ranks.is_first()),
        pool(num_threads_of(config)),
        folder(config.run.folder, is_first) {}

  [[nodiscard]] TrainingRunOptions options(const TrainFlags& flags) {
    return {.resume = flags.resume, .stop_step = flags.num_steps, .interrupted = [this] {
              return interrupt.raised();
            }};
  }

  /// Runs a `TrainingRun` or a `PolicyRun`.
  void finish(auto& run) {
    if (is_first) print_head(run.state(), config);
    run.run();
    if (is_first) write_end(run);
    if (interrupt.raised()) interrupt.end_process();
  }

  void write_end(const auto& run) {
    fmt::print("{}: {} of {} steps{}\n", folder.path().string(), grouped(run.state().step),
               grouped(config.run.steps), run.finished() ? "" : "; --resume continues from there");
    if (run.finished() && has_released_layout(config)) {
      export_model(folder.model(), config, run.state().weights, token_tables, true, pool);
      fmt::print("{}: the trained model; `baleen run --model` takes it\n", folder.model().string());
    }
    if constexpr (requires { run.seconds(); }) write_measured(run.seconds());
    std::fflush(stdout);
  }

  /// Time and memory beside what was predicted and planned.
  void write_measured(const StepSeconds& seconds) const {
    if (seconds.num_steps > 0) {
      const auto steps = static_cast<double>(seconds.num_steps);
      fmt::print("steps: {:.3f} s on average, {:.3f} s predicted\n", seconds.measured / steps,
                 seconds.predicted / steps);
    }
    fmt::print("memory: {:.1f} MB resident at most, {:.1f} MB planned\n",
               1e-6 * static_cast<double>(peak_resident_bytes()),
               1e-6 * static_cast<double>(memory->total_bytes()));
  }

  const TrainConfig& config;
  const TrainingMemoryPlan* memory = nullptr;  ///< what a run on text takes
  bool is_first;
  InterruptFlag interrupt{{SIGINT, SIGTERM, SIGHUP}};
  ThreadPool pool;
  RunFolder folder;
  TokenTables token_tables;  ///< set once the run's work is said: they may take a while
};

void train_on_replies(const TrainConfig& config, const TrainFlags& flags) {
  RunPlace place(config);
  place.token_tables = token_tables_of(config);
  PolicyRun run(config, place.folder, place.token_tables, place.options(flags), place.pool);
  place.finish(run);
}

/// What the run will hold, before it takes any of it.
TrainingMemoryPlan planned_memory(const TrainConfig& config, const TrainingRanks& ranks) {
  TrainingMemoryPlan plan = plan_training_memory(config, num_threads_of(config), ranks.size());
  if (ranks.is_first()) log_lines(plan.table());
  check_fits(plan, available_memory_bytes());
  return plan;
}

/// The step of the stage that takes longest.
RunStepEstimate longest_step(const TrainConfig& config, const DeviceProfile& machine,
                             std::int64_t num_ranks) {
  const std::int64_t last = config.run.steps - 1, dense = config.indexer.dense_steps;
  RunStepEstimate longest;
  for (const std::int64_t step : {std::int64_t{0}, dense, dense + config.indexer.warmup_steps, last}) {
    const PassOptions passes = pass_options_at(config, std::min(step, last));
    RunStepEstimate estimate = estimate_run_step(config, passes, machine, num_ranks);
    if (estimate.seconds() > longest.seconds()) longest = std::move(estimate);
  }
  return longest;
}

/// What the run will take, before it takes it; a warning where the first steps are minutes away.
void say_work(const TrainConfig& config, const DeviceProfile& machine, std::int64_t num_ranks) {
  constexpr double kLongSeconds = 60;
  constexpr double kSecondsPerFirstWeight = 25e-9;  // a normal number, on one thread
  double num_weights = 0;
  for (const TensorSpec& tensor : training_table(config.model, config.ablation.plain_residual))
    num_weights += static_cast<double>(tensor.num_elements());
  const RunStepEstimate step = longest_step(config, machine, num_ranks);
  log_line("work: about {} a step, {} in all for {} steps; {:.1f} million weights",
           seconds_text(step.seconds()), seconds_text(step.seconds() * static_cast<double>(config.run.steps)),
           grouped(config.run.steps), 1e-6 * num_weights);
  const double start = config.run.from.empty() ? kSecondsPerFirstWeight * num_weights : 0;
  if (step.seconds() + start <= kLongSeconds) return;
  const RunPartEstimate& most = *std::ranges::max_element(step.parts, {}, &RunPartEstimate::seconds);
  log_line(
      "the first step ends after about {}; most of a step is \"{}\", {:.0f}%; data.batch_rows, "
      "data.sequence_length, model.vocab_size ({}) and the other sizes of the model lower it",
      seconds_text(step.seconds() + start), most.name, 100 * most.seconds / step.seconds(),
      grouped(config.model.vocab_size));
}

void train_on_text(const TrainConfig& config, const TrainFlags& flags, const TrainingRanks& ranks) {
  const TrainingMemoryPlan memory = planned_memory(config, ranks);
  RunPlace place(config, ranks);
  const MachineLimits limits = measure_machine_limits(place.pool);
  const DeviceProfile machine = training_profile(limits, config.run.precision, place.pool);
  if (ranks.is_first()) say_work(config, machine, ranks.size());
  place.token_tables = token_tables_of(config);
  TrainingGraph<float> graph(config.model, place.token_tables, place.pool);
  TrainingRunOptions options = place.options(flags);
  options.logits = [&graph](const Parameters<float>& weights, const TrainingBatch& batch,
                            const PassOptions& pass) { return graph.logits(weights, batch, pass); };
  options.ranks = ranks;
  options.predicted_seconds = [&](const PassOptions& passes) {
    return estimate_run_step(config, passes, machine, ranks.size()).seconds();
  };
  options.fma_flops_per_second = limits.fma_flops_per_second;
  ranks.add_to_all({&options.fma_flops_per_second, 1});
  const TrainingRanks::Range parts = ranks.share_of(config.num_micro_batches(ranks.size()));
  GraphWorkers workers(config, place.token_tables, parts.end - parts.begin, place.pool.num_threads());
  TrainingRun run(config, place.folder, workers.losses(), std::move(options), place.pool);
  if (!has_released_layout(config) && ranks.is_first()) {
    log_line(
        "ablation.plain_residual: one residual stream; the run is trained, evaluated and logged as others, "
        "but its model has no released layout and is not exported");
  }
  place.memory = &memory;
  place.finish(run);
}

void run_train(const TrainFlags& flags) {
  const TrainConfig config = config_of(flags);
  keep_freed_memory();
  TrainProcesses processes;
  processes.run(config, [&] {
    const TrainingRanks& ranks = processes.ranks();
    check_supported(config, ranks.size());
    if (ranks.is_first() && !config.run.from.empty()) log_findings(open_model_folder(config.run.from).kind);
    if (config.rollout.prompts.empty()) {
      train_on_text(config, flags, ranks);
    } else {
      train_on_replies(config, flags);
    }
  });
}

/// The newest checkpoint of a run, to `purpose`.
RunState newest_state(const TrainConfig& config, std::string_view purpose) {
  const RunFolder folder(config.run.folder);
  if (folder.checkpoints().empty())
    fail("{}: no checkpoint to {}; train first", folder.path().string(), purpose);
  RunState state(config);
  state.inputs = exported_inputs(config);
  read_newest_checkpoint(folder, config, state);
  return state;
}

/// The newest checkpoint as a model.
void run_export(const TrainFlags& flags) {
  const TrainConfig config = config_of(flags);
  check_released_layout(config);
  ThreadPool pool(num_threads_of(config));
  const RunState state = newest_state(config, "export");
  export_model(flags.export_folder, config, state.weights, token_tables_of(config), flags.force, pool);
  fmt::print("{}: the model after {} steps\n", flags.export_folder, grouped(state.step));
}

/// The newest checkpoint in the trainer against the model that an export of it is.
void run_drift(const TrainFlags& flags) {
  const TrainConfig config = config_of(flags);
  if (!config.rollout.prompts.empty())
    fail("--drift: expected a run with held-out data; found [rollout], whose log has probability_drift");
  check_released_layout(config);
  ThreadPool pool(num_threads_of(config));
  const RunState state = newest_state(config, "measure");
  const ServingDrift drift = measure_serving_drift(config, state, token_tables_of(config), pool);
  fmt::print(
      "{}: after {} steps, {} held-out targets: mean difference of token probabilities {:.6f}, largest "
      "{:.6f}; nats a token: trainer {:.6f}, engine {:.6f}\n",
      config.run.folder.string(), grouped(state.step), grouped(drift.num_targets), drift.mean_difference,
      drift.max_difference, drift.trainer_nats, drift.engine_nats);
}

/// Several runs beside each other, from their logs alone.
void run_report(const TrainFlags& flags) {
  if (flags.out.empty()) usage_error("--report: the page needs a file: --out FILE");
  std::vector<RunLog> runs;
  for (const std::string& folder : flags.files) runs.push_back(read_run_log(folder));
  write_report_file(flags.out, runs_html(runs, provenance()), "a browser");
}

}  // namespace

void add_train_command(Options& command) {
  const auto flags = std::make_shared<TrainFlags>();
  command.texts("config", flags->files, "TOML file of the run; with --report folders of runs").required();
  command.integer_without_default(
      "--steps", flags->num_steps, kStepsRange,
      "End after so many steps of the run, with a checkpoint; the schedule stays that of "
      "run.steps");
  command.flag("--resume", flags->resume, "Continue from the newest checkpoint of the folder");
  command.path(
      "--from", flags->from,
      "Checkpoint with the first weights, in the place of run.from; --resume, --export and --drift need it "
      "too");
  command.integer_without_default("--lora", flags->lora_rank, kLoraRange,
                                  "Train adapters of this rank, in the place of lora.rank");
  command.path("--out,-o", flags->out,
               "Folder of the run, in the place of run.folder; with --report the file of the page");
  const Option export_folder =
      command.path("--export", flags->export_folder,
                   "Train nothing: write the newest checkpoint to this folder in the released layout");
  command.flag("--force", flags->force, "With --export: replace the checkpoint in a folder that is not empty")
      .needs(export_folder);
  const Option report =
      command
          .flag("--report", flags->report,
                "Train nothing: write a page of curves, loads of experts and continuations, for a browser")
          .excludes(export_folder);
  command
      .flag("--drift", flags->drift,
            "Train nothing: mean difference of the probabilities of held-out tokens between the trainer with "
            "the newest checkpoint and the engine with an export of it")
      .excludes(export_folder)
      .excludes(report);
  command.integer_without_default("--threads,-t", flags->num_threads, kThreadsRange,
                                  "In the place of run.threads; the weights do not depend on them");
  command.integer_without_default("--concurrent", flags->concurrent, kThreadsRange,
                                  "In the place of run.concurrent_micro_batches; nor on this");
  command.footer(
      "Ctrl-C and SIGTERM end the run after the step in progress, with a checkpoint. A run that is killed\n"
      "loses the steps since its last checkpoint. What the run does is in FOLDER/log.jsonl, a JSON object a\n"
      "line; at its end FOLDER/model is the model in the released layout.");
  command.action([flags] {
    if (flags->report) return run_report(*flags);
    if (flags->drift) return run_drift(*flags);
    flags->export_folder.empty() ? run_train(*flags) : run_export(*flags);
  });
}

}  // namespace baleen
