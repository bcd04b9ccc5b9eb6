#include "app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/open_model.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "benchmark/drawn_acceptance.h"
#include "benchmark/expert_listing.h"
#include "benchmark/kernel_listing.h"
#include "benchmark/phase.h"
#include "benchmark/serving.h"
#include "device/make_device.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "rank_engine/rank_engine.h"
#include "simulator/graph/workload.h"

namespace baleen {
namespace {

constexpr WholeRange kWarmUpRange{2, 1 << 16};

struct BenchFlags {
  EngineFlags engine;
  std::string preset;
  std::optional<std::int64_t> num_layers;
  std::optional<double> zipf;
  std::int64_t warm_up = 2;
  std::vector<std::int64_t> sequences{1};  ///< measured one number after the other
  std::int64_t clients = 0;
  std::int64_t requests = 0;
  std::int64_t prompt = 512;
  std::int64_t decode = 32;
  std::int64_t at = 0;
  std::int64_t drafts = 0;
  std::optional<double> tokens_a_step;
  std::uint64_t seed = 1;
  bool json = false;
  bool kernels = false;
};

/// Of the drafts of a benchmark.
Acceptance acceptance_of(const BenchFlags& flags) {
  const double share = acceptance_for(flags.tokens_a_step.value_or(1), flags.drafts);
  return Acceptance::of_chain({share}, flags.seed);
}

/// The limits of what the engine runs on, and their name.
struct Ceilings {
  std::string machine;
  MachineLimits limits;
  std::string arithmetic;  ///< what the second limit is: "FMA" on a CPU, "FP8" products on a GPU
};

Ceilings ceilings_of(ModelEngine& engine) {
  if (!engine.device().traits().shares_host_memory) {
    const DeviceCeilings device = measure_device_ceilings(engine.options().device);
    return {fmt::format("{}: {:.0f} GB/s copied, {:.0f} TFLOP/s BF16, {:.0f} TFLOP/s FP8", device.name,
                        1e-9 * device.bytes_per_second, 1e-12 * device.bf16_flops_per_second,
                        1e-12 * device.fp8_flops_per_second),
            {device.bytes_per_second, device.fp8_flops_per_second},
            "FP8"};
  }
  ThreadPool pool(engine.options().num_threads);
  const MachineLimits limits = measure_machine_limits(pool);
  return {fmt::format("{}, {} threads, {}: {:.1f} GB/s read, {:.1f} GFLOP/s multiply-add", processor_name(),
                      engine.options().num_threads, instruction_set_in_use(),
                      1e-9 * limits.read_bytes_per_second, 1e-9 * limits.fma_flops_per_second),
          limits, "FMA"};
}

/// How tokens find their experts where weights are made up.
std::string routing_text(const BenchFlags& flags) {
  if (!flags.zipf) return "; their router chooses experts";
  if (*flags.zipf == 0) return "; tables choose experts for each token, all with the same probability";
  return fmt::format("; tables choose experts for each token, by Zipf's law with exponent {}", *flags.zipf);
}

std::unique_ptr<ModelEngine> make_engine(const BenchFlags& flags, const EngineOptions& options) {
  if (flags.preset.empty()) {
    ModelFolder folder = open_model_folder(flags.engine.model);
    if (flags.drafts > 0) check_drafts(folder.kind, fmt::format("--speculate {}", flags.drafts));
    return open_model(std::move(folder), options);
  }
  ModelConfig config = preset_config(flags.preset);
  if (flags.num_layers) config = with_layers(std::move(config), *flags.num_layers);
  if (flags.zipf) config.num_hash_layers = config.num_hidden_layers;
  ThreadPool pool(default_num_threads());
  return open_engine(made_up_weights(config, 1, pool, MadeUpBytes::kShared, flags.zipf.value_or(0)), options);
}

/// Runs the prompt and one token after it, and lists the variants of every operation on the way.
void list_kernels(ModelEngine& engine, std::span<const SequenceId> sequences, std::span<const TokenId> prompt,
                  std::span<const TokenId> next, const Ceilings& ceilings,
                  const std::vector<ExpertCandidate>& experts, bool json) {
  VariantReport report;
  engine.device().set_report(&report);
  const auto num_sequences = static_cast<std::int64_t>(sequences.size());
  if (!prompt.empty()) {
    static_cast<void>(measure(engine, sequences, "prompt", prompt, engine.options().max_batch_tokens));
  }
  static_cast<void>(measure(engine, sequences, "decode", next.first(1), num_sequences));
  engine.device().set_report(nullptr);
  if (!json) {
    return fmt::print("{}\n{}\nexperts, decoding:\n{}", ceilings.machine,
                      kernel_table(report, ceilings.limits), expert_table(experts));
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"machine", ceilings.machine},
                                            {"device", device_name(engine.options().device)},
                                            {"kernels", kernels_to_json(report, ceilings.limits)},
                                            {"experts", experts_to_json(experts)}}
                         .dump());
}

/// Of a step of decoding, whether its plan has one rank or several.
std::vector<ExpertCandidate> experts_of(const BenchFlags& flags, const ModelEngine& engine,
                                        std::int64_t num_sequences) {
  const ModelConfig& config = engine.config();
  const EngineOptions& options = engine.options();
  return expert_candidates({.config = config,
                            .weights = flags.preset.empty()
                                           ? detect_formats(config, Checkpoint(flags.engine.model)).experts
                                           : config.expert_format,
                            .plan = options.parallel,
                            .device = options.device.kind,
                            .precision = options.precision,
                            .step_rows = (num_sequences + options.parallel.dp - 1) / options.parallel.dp,
                            .forced_variants = options.forced_variants});
}

/// Requests through the scheduler instead of phases.
void bench_serving(const BenchFlags& flags, EngineOptions options) {
  if (flags.prompt == 0 || flags.decode == 0)
    fail("bench --clients: requests need --prompt and --decode of 1 or more");
  if (flags.at > 0 || flags.kernels) fail("bench --clients: --at and --kernels are for phases");
  options.max_sequences = flags.clients;
  if (options.cache_tokens == 0) {
    options.cache_tokens =
        flags.clients * pages_for(flags.prompt + flags.decode + flags.drafts) * kPageTokens;
  }
  const auto engine = make_engine(flags, options);
  log_expert_transport(*engine);
  engine->device().set_profiling(!engine->device().traits().queues);
  const MeasuredServing figures =
      measure_serving(*engine, {.clients = flags.clients,
                                .requests = flags.requests > 0 ? flags.requests : 4 * flags.clients,
                                .prompt_tokens = flags.prompt,
                                .reply_tokens = flags.decode,
                                .drafts = flags.drafts,
                                .acceptance = acceptance_of(flags)});
  if (!flags.json) return fmt::print("{}", to_text(figures));
  nlohmann::ordered_json json{{"device", device_name(engine->options().device)},
                              {"plan", to_text(engine->options().parallel)},
                              {"layers", engine->config().num_hidden_layers},
                              {"made_up", flags.preset},
                              {"drafts", flags.drafts},
                              {"processor", processor_name()}};
  json.update(to_json(figures));
  fmt::print("{}\n", json.dump());
}

EngineOptions engine_options(const BenchFlags& flags) {
  const std::int64_t sequences = std::max(flags.clients, std::ranges::max(flags.sequences));
  const EnginePurpose purpose{sequences > 1 ? PlanGoal::kManyReplies : PlanGoal::kOneConversation, sequences};
  if (flags.preset.empty()) return flags.engine.options(purpose);
  return flags.engine.options_of(SimulatedModelFlags{flags.preset, flags.num_layers}.load(), purpose);
}

/// So many sequences with prompt, history and decoding, after `num_warm_up_steps` that are not measured; they
/// are closed again.
void measure_sequences(const BenchFlags& flags, ModelEngine& engine, std::int64_t num_sequences,
                       std::int64_t num_warm_up_steps, const Ceilings& ceilings) {
  const auto& [machine, limits, arithmetic] = ceilings;
  std::vector<SequenceId> sequences;
  for (std::int64_t i = 0; i < num_sequences; ++i) {
    sequences.push_back(*engine.open({}));
    if (flags.at > 0) engine.fabricate_history(sequences.back(), flags.at);
  }
  const std::vector<TokenId> tokens =
      some_tokens(flags.prompt + 2 * flags.decode + num_warm_up_steps, engine.config().vocab_size);
  const std::span<const TokenId> all(tokens);
  const std::span<const TokenId> prompt = all.first(static_cast<std::size_t>(flags.prompt));
  const std::span<const TokenId> rest = all.subspan(prompt.size());
  if (flags.kernels) {
    return list_kernels(engine, sequences, prompt, rest, ceilings, experts_of(flags, engine, num_sequences),
                        flags.json);
  }
  // The first steps read the weights from disk, load kernels and capture graphs; they are not measured.
  const auto num_warm_up = static_cast<std::size_t>(num_warm_up_steps);
  engine.device().set_profiling(false);
  static_cast<void>(measure(engine, sequences, "warm-up", rest.first(num_warm_up), num_sequences));
  // Where operations are queued, looking at each of them slows a step down: decoding is timed without, then
  // looked at.
  const bool queued = engine.device().traits().queues;
  std::vector<Phase> phases;
  const auto measure_phase = [&](const std::string& name, std::span<const TokenId> part,
                                 std::int64_t step_tokens, bool profile) {
    engine.device().set_profiling(profile);
    phases.push_back(measure(engine, sequences, name, part, step_tokens));
  };
  if (flags.prompt > 0) measure_phase("prefill", prompt, engine.options().max_batch_tokens, true);
  std::optional<AcceptingEngine> accepting;
  if (flags.drafts > 0) accepting.emplace(engine, acceptance_of(flags));
  const auto measure_drafts = [&](const std::string& name, std::int64_t steps, bool profile) {
    engine.device().set_profiling(profile);
    phases.push_back(
        measure_drafting(engine, *accepting, sequences, name, rest.front(), steps, flags.drafts));
  };
  if (flags.decode > 0 && flags.drafts > 0) {
    measure_drafts("warm-up", flags.warm_up, false);
    phases.pop_back();
    const std::string name =
        fmt::format("decode at {} with {} drafts", engine.length(sequences.front()), flags.drafts);
    measure_drafts(name, flags.decode, !queued);
    if (queued)
      measure_drafts(name + ", operation by operation", std::min<std::int64_t>(flags.decode, 4), true);
  } else if (flags.decode > 0) {
    const auto half = rest.subspan(num_warm_up, static_cast<std::size_t>(flags.decode));
    const std::string name = fmt::format("decode at {}", engine.length(sequences.front()));
    measure_phase(name, half, num_sequences, !queued);
    if (queued) {
      const auto looked_at = rest.subspan(num_warm_up + half.size(), std::min<std::size_t>(half.size(), 4));
      measure_phase(name + ", operation by operation", looked_at, num_sequences, true);
    }
  }
  for (const SequenceId sequence : sequences) engine.close(sequence, false);
  if (!flags.json) {
    if (flags.sequences.size() > 1) fmt::print("\n{} sequences\n", num_sequences);
    for (const Phase& phase : phases) print_phase(phase, limits, arithmetic);
    return;
  }
  nlohmann::ordered_json json{{"machine", machine},
                              {"device", device_name(engine.options().device)},
                              {"ranks", engine.options().parallel.num_devices},
                              {"plan", to_text(engine.options().parallel)},
                              {"layers", engine.config().num_hidden_layers},
                              {"made_up", flags.preset},
                              {"drafts", flags.drafts},
                              {"zipf", flags.zipf ? nlohmann::ordered_json(*flags.zipf) : nullptr},
                              {"sequences", num_sequences},
                              {"weight_bytes", engine.plan().weight_bytes},
                              {"host_experts", engine.plan().experts.num_on_host},
                              {"disk_experts", engine.plan().experts.num_on_disk},
                              {"expert_slots", engine.plan().experts.num_slots},
                              {"host_expert_bytes", engine.plan().host_expert_bytes},
                              {"arithmetic_peak", arithmetic},
                              {"processor", processor_name()},
                              {"threads", engine.options().num_threads},
                              {"instruction_set", instruction_set_in_use()},
                              {"read_bytes_per_second", limits.read_bytes_per_second},
                              {"fma_flops_per_second", limits.fma_flops_per_second},
                              {"phases", nlohmann::ordered_json::array()}};
  for (const Phase& phase : phases) json["phases"].push_back(to_json(phase, limits));
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);  // a later measurement may run out of time
}

void run_bench(const BenchFlags& flags) {
  if (flags.requests > 0 && flags.clients == 0)
    fail("bench: --requests is for --clients, of which there are none");
  EngineOptions options = engine_options(flags);
  if (flags.drafts > 0) {
    if (!flags.tokens_a_step)
      usage_error("bench --speculate {}: --tokens-a-step says how many are right", flags.drafts);
    options.max_draft_tokens = flags.drafts;
    options.choose_on_device = true;  // what is accepted is drawn for tokens, not for logits
  }
  static_cast<void>(acceptance_of(flags));  // refuses what cannot be before weights are made
  if (flags.clients > 0) return bench_serving(flags, std::move(options));
  const std::int64_t most_sequences = std::ranges::max(flags.sequences);
  options.max_sequences = most_sequences;
  const std::int64_t wanted =
      flags.at + flags.prompt + (2 * flags.decode + flags.warm_up) * (1 + flags.drafts);
  if (options.cache_tokens == 0) {
    options.cache_tokens = most_sequences * pages_for(wanted) * kPageTokens;
  }
  const auto engine = make_engine(flags, options);
  log_expert_transport(*engine);
  if (wanted > engine->config().max_position_embeddings ||
      wanted * most_sequences > engine->options().cache_tokens) {
    fail("bench: {} positions wanted for each of {} sequences, the cache holds {}, the model's context {}",
         wanted, most_sequences, engine->options().cache_tokens, engine->config().max_position_embeddings);
  }
  const Ceilings ceilings = ceilings_of(*engine);
  if (!flags.json && !flags.kernels) {
    if (!flags.preset.empty()) fmt::print("made-up weights of {}{}\n", flags.preset, routing_text(flags));
    fmt::print("{}\n{}", ceilings.machine, engine->memory_text());
  }
  std::int64_t num_warm_up_steps = flags.warm_up;
  for (const std::int64_t num_sequences : flags.sequences) {
    measure_sequences(flags, *engine, num_sequences, num_warm_up_steps, ceilings);
    num_warm_up_steps = kWarmUpRange.min;
  }
}

}  // namespace

void add_bench_command(Options& command) {
  auto flags = std::make_shared<BenchFlags>();
  flags->engine.add_to(command);
  command.text("--preset", flags->preset,
               "Random weights of a known geometry instead of --model, e.g. flash");
  command.integer("--layers", flags->num_layers, kLayersRange,
                  "With --preset: keep the first so many layers");
  command.real(
      "--zipf", flags->zipf, {.min = 0, .max = 10},
      "With --preset: tables choose the experts of each token in every layer, the one of rank r with a "
      "probability of 1/r^X; 0: evenly. Without: the router does");
  const Option clients = command.integer(
      "--clients", flags->clients, {.min = 0, .max = 1 << 16},
      "Instead of phases: requests of --prompt and --decode tokens through the scheduler, so many at "
      "a time, the next one when one ends");
  command
      .integer("--warm-up", flags->warm_up, kWarmUpRange,
               "Steps of one token that are not measured, before all; the least before further numbers of "
               "--sequences")
      .excludes(clients);
  command
      .integers("--sequences", flags->sequences, kSequencesRange,
                "Sequences at a time, each with prompt, history and decoding; several numbers: one "
                "measurement after the other. 1 unless given")
      .excludes(clients);
  command.integer("--requests", flags->requests, {.min = 0, .max = 1 << 20},
                  "With --clients: so many in all; 0: four for each client");
  command.integer("--prompt", flags->prompt, kTokensRange, "Prompt tokens to measure; 0: none");
  command.integer("--decode", flags->decode, kTokensRange, "Tokens to decode one by one; 0: none");
  command.integer("--at", flags->at, kTokensRange, "Start after this many positions of made-up history");
  const Option drafts =
      command.integer("--speculate", flags->drafts, kDraftsRange,
                      "Tokens that the MTP block drafts for each step of decoding; 0: none");
  Option tokens = add_tokens_a_step_option(command, flags->tokens_a_step);
  tokens.needs(drafts);
  command
      .seed("--seed", flags->seed,
            "Of the drafts that are right, which is drawn: made-up weights draft at random")
      .needs(tokens);
  command.flag("--kernels", flags->kernels,
               "Instead of timing, list the variants of every operation and why each was chosen or not");
  command.flag("--json", flags->json, "One JSON line instead of tables");
  command.action([flags] { run_bench(*flags); });
}

}  // namespace baleen
