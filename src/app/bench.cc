#include "app/commands.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/draft_flags.h"
#include "app/engine_flags.h"
#include "app/open_model.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/simulation_flags.h"
#include "app/version.h"
#include "base/error.h"
#include "base/file.h"
#include "benchmark/engine_benchmark.h"
#include "benchmark/machine_report.h"
#include "log/log.h"
#include "model/presets.h"
#include "model_files/made_up.h"

namespace baleen {
namespace {

struct BenchFlags {
  EngineFlags engine;
  std::optional<double> link_rate;  ///< GB/s
  EngineBenchmark load;
  std::optional<std::int64_t> num_layers;
  DraftFlags drafts;
  std::optional<double> tokens_a_step;
  std::vector<double> published_acceptance;
  std::uint64_t seed = 1;
  std::string report;  ///< a file; empty: none
};

/// Of the given geometry. Tables of n-grams are cut to what a GPU's second-level cache does not hold: a token
/// reads as many rows of them, and 203 GB are not made up.
ModelConfig made_up_config(const BenchFlags& flags) {
  constexpr std::int64_t kRowsOfHash = 1 << 16;
  ModelConfig config = preset_config(flags.load.made_up);
  if (flags.num_layers) config = with_layers(std::move(config), *flags.num_layers);
  if (config.engram && config.engram->vocab_size > kRowsOfHash) {
    config = with_engram_vocabulary(std::move(config), kRowsOfHash);
    log_line("tables of n-grams are cut to {} rows a hash", kRowsOfHash);
  }
  if (flags.load.zipf) config.num_hash_layers = config.num_hidden_layers;
  return config;
}

std::unique_ptr<ModelEngine> make_engine(const BenchFlags& flags, const EngineOptions& options) {
  if (flags.load.made_up.empty()) {
    ModelFolder folder = open_model_folder(flags.engine.model);
    if (flags.load.drafts > 0) check_drafts(folder.kind, fmt::format("--speculate {}", flags.load.drafts));
    return open_model(std::move(folder), options);
  }
  ThreadPool pool(default_num_threads());
  std::unique_ptr<ModelEngine> engine = open_engine(
      made_up_weights(made_up_config(flags), 1, pool, MadeUpBytes::kShared, flags.load.zipf.value_or(0)),
      options);
  log_bounded_replay(*engine);
  return engine;
}

EngineOptions engine_options(const BenchFlags& flags) {
  const std::int64_t sequences = flags.load.max_sequences();
  const EnginePurpose purpose{sequences > 1 ? PlanGoal::kManyReplies : PlanGoal::kOneConversation, sequences};
  EngineOptions options =
      flags.load.made_up.empty()
          ? flags.engine.options(purpose)
          : flags.engine.options_of(SimulatedModelFlags{flags.load.made_up, flags.num_layers}.load(),
                                    purpose);
  if (flags.link_rate) options.imposed_link_rate = 1e9 * *flags.link_rate;
  return options;
}

/// Of a step of decoding, whether its plan has one rank or several.
WeightFormat expert_weights(const BenchFlags& flags, const ModelConfig& config) {
  if (!flags.load.made_up.empty()) return config.expert_format;
  return detect_formats(config, read_model_files(flags.engine.model).checkpoint).experts;
}

/// What an owner of a card sends to confirm it, as one file.
void write_machine_report(const BenchFlags& flags) {
  AtomicFileWriter writer(flags.report);  // can the file be written, before minutes of measuring?
  const bool bundled = flags.engine.model == default_model_folder();
  const nlohmann::ordered_json report =
      machine_report({.program = program_facts(),
                      .options = flags.engine.options(),
                      .model = flags.engine.model,
                      .model_name = bundled ? "stories" : "another model",
                      .flash_layers = flags.num_layers.value_or(MachineReportRequest().flash_layers),
                      .load = flags.load});
  writer.write(report.dump(1) + "\n");
  writer.commit();
  const std::size_t num_failed = report["failures"].size();
  log_line("{} written{}; it names no host, user or path: read it, and attach it to an issue", flags.report,
           num_failed == 0 ? "" : fmt::format(", with {} failures", num_failed));
}

void run_bench(const BenchFlags& flags) {
  if (!flags.report.empty()) return write_machine_report(flags);
  EngineBenchmark load = flags.load;
  if (load.requests > 0 && load.clients == 0)
    fail("bench: --requests is for --clients, of which there are none");
  EngineOptions options = engine_options(flags);
  if (load.drafts > 0 && !flags.tokens_a_step && flags.published_acceptance.empty())
    usage_error("bench --speculate {}: --acceptance or --tokens-a-step says how many are right", load.drafts);
  // Refuses what cannot be before weights are made.
  load.acceptance = Acceptance::of_chain(
      flags.published_acceptance.empty()
          ? std::vector<double>{acceptance_for(flags.tokens_a_step.value_or(1), load.drafts)}
          : acceptance_of_published(flags.published_acceptance),
      flags.seed);
  flags.drafts.apply_to(load.scheduler);
  if (load.clients > 0) {
    if (load.prompt == 0 || load.decode == 0)
      fail("bench --clients: requests need --prompt and --decode of 1 or more");
    if (load.at > 0 || load.lists_kernels) fail("bench --clients: --at and --kernels are for phases");
  }
  load.fit(options);
  const auto engine = make_engine(flags, options);
  flags.drafts.check(*engine);
  log_expert_transport(*engine);
  if (load.clients > 0) return benchmark_serving(load, *engine);
  if (load.lists_kernels) load.expert_weights = expert_weights(flags, engine->config());
  benchmark_phases(load, *engine);
}

}  // namespace

void add_bench_command(Options& command) {
  auto flags = std::make_shared<BenchFlags>();
  flags->engine.add_to(command);
  command.text("--preset", flags->load.made_up,
               "Random weights of a known geometry instead of --model, e.g. flash");
  command.integer("--layers", flags->num_layers, kLayersRange,
                  "With --preset or --report: keep the first so many layers");
  command.real(
      "--zipf", flags->load.zipf, {.min = 0, .max = 10},
      "With --preset: tables choose the experts of each token in every layer, the one of rank r with a "
      "probability of 1/r^X; 0: evenly. Without: the router does");
  const Option clients = command.integer(
      "--clients", flags->load.clients, {.min = 0, .max = 1 << 16},
      "Instead of phases: requests of --prompt and --decode tokens through the scheduler, so many at "
      "a time, the next one when one ends");
  command
      .integer("--warm-up", flags->load.warm_up, {kMinWarmUpSteps, 1 << 16},
               "Steps of one token that are not measured, before all; the least before further numbers of "
               "--sequences")
      .excludes(clients);
  command
      .integers("--sequences", flags->load.sequences, kSequencesRange,
                "Sequences at a time, each with prompt, history and decoding; several numbers: one "
                "measurement after the other. 1 unless given")
      .excludes(clients);
  command.integer("--requests", flags->load.requests, {.min = 0, .max = 1 << 20},
                  "With --clients: so many in all; 0: four for each client");
  command.integer("--prompt", flags->load.prompt, kTokensRange, "Prompt tokens to measure; 0: none");
  command.integer("--decode", flags->load.decode, kTokensRange, "Tokens to decode one by one; 0: none");
  command.integer("--at", flags->load.at, kTokensRange, "Start after this many positions of made-up history");
  const Option drafts =
      command.integer("--speculate", flags->load.drafts, kDraftsRange,
                      "Tokens that the draft head drafts for each step of decoding; 0: none");
  Option tokens = add_tokens_a_step_option(command, flags->tokens_a_step);
  tokens.needs(drafts);
  add_published_acceptance_option(command, flags->published_acceptance).needs(drafts).excludes(tokens);
  command
      .seed("--seed", flags->seed,
            "Of the drafts that are right, which is drawn: made-up weights draft at random")
      .needs(drafts);
  flags->drafts.add_schedule_to(command);
  flags->drafts.add_threshold_to(command);
  command.real(
      "--link-gbps", flags->link_rate, {.min = 0.1, .max = 1e4},
      "Copies of chosen experts take as long as over a link of so many GB/s, as 25 for PCIe 4; those "
      "of prompts are not slowed");
  command.flag("--kernels", flags->load.lists_kernels,
               "Instead of timing, list the variants of every operation and why each was chosen or not");
  command
      .path("--report", flags->report,
            "Instead: a file with all that confirms what runs on this machine (hardware, driver, limits, a "
            "check of every kernel, the bundled model and --layers layers of Flash), and nothing private")
      .excludes(clients);
  command.flag("--json", flags->load.json, "One JSON line instead of tables");
  command.action([flags] { run_bench(*flags); });
}

}  // namespace baleen
