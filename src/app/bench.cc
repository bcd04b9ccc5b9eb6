#include "app/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/bench_serving.h"
#include "app/bench_train.h"
#include "app/engine_flags.h"
#include "app/expert_listing.h"
#include "app/kernel_listing.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "base/error.h"
#include "device/make_device.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "rank_engine/rank_engine.h"

namespace baleen {
namespace {

constexpr WholeRange kWarmUpRange{2, 1 << 16};

struct BenchFlags {
  EngineFlags engine;
  std::string preset;
  std::optional<std::int64_t> num_layers;
  std::optional<double> zipf;
  std::int64_t warm_up = 2;
  std::int64_t sequences = 1;
  std::int64_t clients = 0;
  std::int64_t requests = 0;
  std::int64_t prompt = 512;
  std::int64_t decode = 32;
  std::int64_t at = 0;
  bool json = false;
  bool kernels = false;
};

/// One measured phase: wall time and what the device noted.
struct Phase {
  std::string name;
  std::int64_t tokens = 0;
  double seconds = 0;         ///< total
  double median_seconds = 0;  ///< of one step
  std::map<std::string_view, OpRecord> records;
  OpRecord total;
};

/// Pseudo-random ids, so that tokens have different experts.
std::vector<TokenId> some_tokens(std::int64_t count, std::int64_t vocab_size) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::uint64_t state = 88172645463325252ull;
  for (TokenId& token : tokens) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    token = static_cast<TokenId>(state % static_cast<std::uint64_t>(vocab_size));
  }
  return tokens;
}

/// `tokens` as a sequence gets them: ids of its own, for with the same ones all sequences would have the same
/// experts.
std::vector<TokenId> tokens_of(std::size_t sequence, std::span<const TokenId> tokens,
                               std::int64_t vocab_size) {
  constexpr std::int64_t kStride = 7919;  // a prime
  std::vector<TokenId> own(tokens.begin(), tokens.end());
  for (TokenId& token : own)
    token = static_cast<TokenId>((token + static_cast<std::int64_t>(sequence) * kStride) % vocab_size);
  return own;
}

/// Feeds every sequence as many tokens as `tokens` has, step_tokens of them a step over all; as a server
/// would, where the engine can, each step begins before the one before has ended.
Phase measure(ModelEngine& engine, std::span<const SequenceId> sequences, const std::string& name,
              std::span<const TokenId> tokens, std::int64_t step_tokens) {
  const auto num_sequences = static_cast<std::int64_t>(sequences.size());
  Phase phase{.name = name, .tokens = static_cast<std::int64_t>(tokens.size()) * num_sequences};
  engine.device().profile().clear();
  const auto share = static_cast<std::size_t>(std::max<std::int64_t>(1, step_tokens / num_sequences));
  std::vector<std::vector<TokenId>> own;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    own.push_back(tokens_of(i, tokens, engine.config().vocab_size));
  std::vector<double> steps;
  const bool ahead = engine.limits().runs_ahead;
  auto last = std::chrono::steady_clock::now();
  const auto note = [&](const Result<StepOutput>& output) {
    if (!output) fail("{}", output.error());
    const auto now = std::chrono::steady_clock::now();
    steps.push_back(std::chrono::duration<double>(now - last).count());
    phase.seconds += steps.back();
    last = now;
  };
  for (std::size_t begin = 0; begin < tokens.size(); begin += share) {
    std::vector<StepInput> inputs;
    const SampleRow greedy;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      inputs.push_back({sequences[i],
                        std::span(own[i]).subspan(begin, std::min(tokens.size() - begin, share)),
                        WantedLogits::kLast});
      if (engine.limits().chooses) inputs.back().draws = {&greedy, 1};
    }
    if (!ahead) {
      note(engine.step(inputs));
      continue;
    }
    if (const auto failed = engine.queue(inputs)) fail("{}", failed->message);
    if (begin > 0) note(engine.collect());
  }
  if (ahead) note(engine.collect());
  std::ranges::sort(steps);
  phase.median_seconds = steps[steps.size() / 2];
  phase.records = engine.device().profile().records();
  phase.total = engine.device().profile().total();
  return phase;
}

struct Figures {
  double gb_per_second = 0;
  double gflop_per_second = 0;
  double read_share = 0;  ///< of the measured read bandwidth
  double fma_share = 0;   ///< of the measured multiply-add peak
};

Figures figures(const OpCost& cost, double seconds, const MachineLimits& limits) {
  const double bytes = cost.total_bytes() / seconds, flops = cost.total_flops() / seconds;
  return {bytes * 1e-9, flops * 1e-9, bytes / limits.read_bytes_per_second,
          flops / limits.fma_flops_per_second};
}

void print_phase(const Phase& phase, const MachineLimits& limits, const std::string& arithmetic) {
  const double steps_seconds = phase.seconds;
  fmt::print("\n{}: {} tokens in {:.3f} s, {:.1f} tokens/s, {:.3f} ms a step (median)\n", phase.name,
             phase.tokens, steps_seconds, static_cast<double>(phase.tokens) / steps_seconds,
             1e3 * phase.median_seconds);
  fmt::print("{:<18}{:>8}{:>12}{:>8}{:>10}{:>11}{:>9}{:>9}\n", "operation", "calls", "ms", "share", "GB/s",
             "GFLOP/s", "of read", "of " + arithmetic);
  std::vector<std::pair<std::string_view, OpRecord>> rows(phase.records.begin(), phase.records.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  rows.emplace_back("all", phase.total);
  rows.back().second.seconds = steps_seconds;  // what is between the operations counts too
  for (const auto& [name, record] : rows) {
    const Figures f = figures(record.cost, record.seconds, limits);
    fmt::print("{:<18}{:>8}{:>12.3f}{:>7.1f}%{:>10.2f}{:>11.1f}{:>8.0f}%{:>8.0f}%\n", name, record.calls,
               1e3 * record.seconds, 100 * record.seconds / steps_seconds, f.gb_per_second,
               f.gflop_per_second, 100 * f.read_share, 100 * f.fma_share);
  }
}

nlohmann::ordered_json to_json(const Phase& phase, const MachineLimits& limits) {
  const auto row = [&](std::string_view name, const OpRecord& record, double seconds) {
    const Figures f = figures(record.cost, seconds, limits);
    return nlohmann::ordered_json{{"operation", name},
                                  {"calls", record.calls},
                                  {"seconds", seconds},
                                  {"bytes", record.cost.total_bytes()},
                                  {"flops", record.cost.total_flops()},
                                  {"gb_per_second", f.gb_per_second},
                                  {"gflop_per_second", f.gflop_per_second},
                                  {"share_of_read_bandwidth", f.read_share},
                                  {"share_of_fma_peak", f.fma_share}};
  };
  nlohmann::ordered_json json{{"phase", phase.name},
                              {"tokens", phase.tokens},
                              {"seconds", phase.seconds},
                              {"median_step_seconds", phase.median_seconds},
                              {"operations", nlohmann::ordered_json::array()}};
  for (const auto& [name, record] : phase.records)
    json["operations"].push_back(row(name, record, record.seconds));
  json["all"] = row("all", phase.total, phase.seconds);
  return json;
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
  if (flags.preset.empty()) return open_engine(flags.engine.model, options);
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
  if (!prompt.empty()) measure(engine, sequences, "prompt", prompt, engine.options().max_batch_tokens);
  measure(engine, sequences, "decode", next.first(1), num_sequences);
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
std::vector<ExpertCandidate> experts_of(const BenchFlags& flags, const ModelEngine& engine) {
  const ModelConfig& config = engine.config();
  const EngineOptions& options = engine.options();
  return expert_candidates({.config = config,
                            .weights = flags.preset.empty()
                                           ? detect_formats(config, Checkpoint(flags.engine.model)).experts
                                           : config.expert_format,
                            .plan = options.parallel,
                            .device = options.device.kind,
                            .precision = options.precision,
                            .step_rows = (flags.sequences + options.parallel.dp - 1) / options.parallel.dp,
                            .forced_variants = options.forced_variants});
}

/// Requests through the scheduler instead of phases.
void bench_serving(const BenchFlags& flags, EngineOptions options) {
  if (flags.prompt == 0 || flags.decode == 0)
    fail("bench --clients: requests need --prompt and --decode of 1 or more");
  if (flags.at > 0 || flags.kernels) fail("bench --clients: --at and --kernels are for phases");
  options.max_sequences = flags.clients;
  if (options.cache_tokens == 0)
    options.cache_tokens = flags.clients * pages_for(flags.prompt + flags.decode) * kPageTokens;
  const auto engine = make_engine(flags, options);
  log_expert_transport(*engine);
  engine->device().set_profiling(!engine->device().traits().queues);
  const MeasuredServing figures =
      measure_serving(*engine, {.clients = flags.clients,
                                .requests = flags.requests > 0 ? flags.requests : 4 * flags.clients,
                                .prompt_tokens = flags.prompt,
                                .reply_tokens = flags.decode});
  if (!flags.json) return fmt::print("{}", to_text(figures));
  nlohmann::ordered_json json{{"device", device_name(engine->options().device)},
                              {"plan", to_text(engine->options().parallel)},
                              {"layers", engine->config().num_hidden_layers},
                              {"made_up", flags.preset},
                              {"processor", processor_name()}};
  json.update(to_json(figures));
  fmt::print("{}\n", json.dump());
}

void run_bench(const BenchFlags& flags) {
  if (flags.requests > 0 && flags.clients == 0)
    fail("bench: --requests is for --clients, of which there are none");
  EngineOptions options =
      flags.preset.empty() ? flags.engine.options() : flags.engine.options_without_model();
  if (flags.clients > 0) return bench_serving(flags, std::move(options));
  options.max_sequences = flags.sequences;
  const std::int64_t wanted = flags.at + flags.prompt + 2 * flags.decode + flags.warm_up;
  if (options.cache_tokens == 0) {
    options.cache_tokens = flags.sequences * pages_for(wanted) * kPageTokens;
  }
  const auto engine = make_engine(flags, options);
  log_expert_transport(*engine);
  if (wanted > engine->config().max_position_embeddings ||
      wanted * flags.sequences > engine->options().cache_tokens) {
    fail("bench: {} positions wanted for each of {} sequences, the cache holds {}, the model's context {}",
         wanted, flags.sequences, engine->options().cache_tokens, engine->config().max_position_embeddings);
  }
  const Ceilings ceilings = ceilings_of(*engine);
  const auto& [machine, limits, arithmetic] = ceilings;
  if (!flags.json && !flags.kernels) {
    if (!flags.preset.empty()) fmt::print("made-up weights of {}{}\n", flags.preset, routing_text(flags));
    fmt::print("{}\n{}", machine, engine->memory_text());
  }
  std::vector<SequenceId> sequences;
  for (std::int64_t i = 0; i < flags.sequences; ++i) {
    sequences.push_back(*engine->open({}));
    if (flags.at > 0) engine->fabricate_history(sequences.back(), flags.at);
  }
  const std::vector<TokenId> tokens =
      some_tokens(flags.prompt + 2 * flags.decode + flags.warm_up, engine->config().vocab_size);
  const std::span<const TokenId> all(tokens);
  const std::span<const TokenId> prompt = all.first(static_cast<std::size_t>(flags.prompt));
  const std::span<const TokenId> rest = all.subspan(prompt.size());
  if (flags.kernels) {
    return list_kernels(*engine, sequences, prompt, rest, ceilings, experts_of(flags, *engine), flags.json);
  }
  // The first steps read the weights from disk, load kernels and capture graphs; they are not measured.
  const auto num_warm_up = static_cast<std::size_t>(flags.warm_up);
  measure(*engine, sequences, "warm-up", rest.first(num_warm_up), flags.sequences);
  // Where operations are queued, looking at each of them slows a step down: decoding is timed without, then
  // looked at.
  const bool queued = engine->device().traits().queues;
  std::vector<Phase> phases;
  const auto measure_phase = [&](const std::string& name, std::span<const TokenId> part,
                                 std::int64_t step_tokens, bool profile) {
    engine->device().set_profiling(profile);
    phases.push_back(measure(*engine, sequences, name, part, step_tokens));
  };
  if (flags.prompt > 0) measure_phase("prefill", prompt, engine->options().max_batch_tokens, true);
  if (flags.decode > 0) {
    const auto half = rest.subspan(num_warm_up, static_cast<std::size_t>(flags.decode));
    const std::string name = fmt::format("decode at {}", engine->length(sequences.front()));
    measure_phase(name, half, flags.sequences, !queued);
    if (queued) {
      const auto looked_at = rest.subspan(num_warm_up + half.size(), std::min<std::size_t>(half.size(), 4));
      measure_phase(name + ", operation by operation", looked_at, flags.sequences, true);
    }
  }
  if (!flags.json) {
    for (const Phase& phase : phases) print_phase(phase, limits, arithmetic);
    return;
  }
  nlohmann::ordered_json json{{"machine", machine},
                              {"device", device_name(engine->options().device)},
                              {"ranks", engine->options().parallel.num_devices},
                              {"plan", to_text(engine->options().parallel)},
                              {"layers", engine->config().num_hidden_layers},
                              {"made_up", flags.preset},
                              {"zipf", flags.zipf ? nlohmann::ordered_json(*flags.zipf) : nullptr},
                              {"weight_bytes", engine->plan().weight_bytes},
                              {"host_experts", engine->plan().experts.num_on_host},
                              {"host_expert_bytes", engine->plan().host_expert_bytes},
                              {"arithmetic_peak", arithmetic},
                              {"processor", processor_name()},
                              {"threads", engine->options().num_threads},
                              {"instruction_set", instruction_set_in_use()},
                              {"read_bytes_per_second", limits.read_bytes_per_second},
                              {"fma_flops_per_second", limits.fma_flops_per_second},
                              {"phases", nlohmann::ordered_json::array()}};
  for (const Phase& phase : phases) json["phases"].push_back(to_json(phase, limits));
  fmt::print("{}\n", json.dump());
}

}  // namespace

void add_bench_command(Options& program) {
  auto flags = std::make_shared<BenchFlags>();
  Options command =
      program.command("bench", "Time of every operation against this machine's measured limits");
  flags->engine.add_to(command);
  command.text("--preset", flags->preset,
               "Random weights of a known geometry instead of --model, e.g. flash");
  command.integer("--layers", flags->num_layers, kLayersRange,
                  "With --preset: keep the first so many layers");
  command.real(
      "--zipf", flags->zipf, {.min = 0, .max = 10},
      "With --preset: tables choose the experts of each token in every layer, the one of rank r with a "
      "probability of 1/r^X; 0: evenly. Without: the router does");
  command.integer("--warm-up", flags->warm_up, kWarmUpRange,
                  "Steps of one token that are not measured, before all");
  command.integer("--sequences", flags->sequences, kSequencesRange,
                  "Sequences at a time, each with prompt, history and decoding");
  command.integer(
      "--clients", flags->clients, {.min = 0, .max = 1 << 16},
      "Instead of phases: requests of --prompt and --decode tokens through the scheduler, so many at "
      "a time, the next one when one ends");
  command.integer("--requests", flags->requests, {.min = 0, .max = 1 << 20},
                  "With --clients: so many in all; 0: four for each client");
  command.integer("--prompt", flags->prompt, kTokensRange, "Prompt tokens to measure; 0: none");
  command.integer("--decode", flags->decode, kTokensRange, "Tokens to decode one by one; 0: none");
  command.integer("--at", flags->at, kTokensRange, "Start after this many positions of made-up history");
  command.flag("--kernels", flags->kernels,
               "Instead of timing, list the variants of every operation and why each was chosen or not");
  command.flag("--json", flags->json, "One JSON line instead of tables");
  command.action([flags] { run_bench(*flags); });
  add_bench_train_command(command);
}

}  // namespace baleen
