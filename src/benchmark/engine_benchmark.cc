#include "benchmark/engine_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "benchmark/ceilings.h"
#include "benchmark/drawn_acceptance.h"
#include "benchmark/expert_listing.h"
#include "benchmark/kernel_listing.h"
#include "benchmark/phase.h"
#include "benchmark/serving.h"
#include "device/make_device.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"

namespace baleen {
namespace {

/// How tokens find their experts where weights are made up.
std::string routing_text(const EngineBenchmark& load) {
  if (!load.zipf) return "; their router chooses experts";
  if (*load.zipf == 0) return "; tables choose experts for each token, all with the same probability";
  return fmt::format("; tables choose experts for each token, by Zipf's law with exponent {}", *load.zipf);
}

/// Of steps of a prompt before its last: of one that is bounded most positions have no logits.
WantedLogits wanted_within_prompt(const ModelEngine& engine) {
  return engine.options().bounded_replay_tokens > 0 ? WantedLogits::kNone : WantedLogits::kLast;
}

/// Runs the prompt and one token after it, and lists the variants of every operation on the way.
void list_kernels(ModelEngine& engine, std::span<const SequenceId> sequences, std::span<const TokenId> prompt,
                  std::span<const TokenId> next, const Ceilings& ceilings,
                  const std::vector<ExpertCandidate>& experts, bool json) {
  VariantReport report;
  engine.device().set_report(&report);
  engine.device().set_profiling(true);
  const auto num_sequences = static_cast<std::int64_t>(sequences.size());
  if (!prompt.empty()) {
    static_cast<void>(measure(engine, sequences, "prompt", prompt, engine.options().max_batch_tokens,
                              wanted_within_prompt(engine)));
  }
  static_cast<void>(measure(engine, sequences, "decode", next.first(1), num_sequences));
  static_cast<void>(engine.device().profile());  // by now all times are known
  engine.device().set_profiling(false);
  engine.device().set_report(nullptr);
  if (!json) {
    return fmt::print("{}\n{}\nexperts, decoding:\n{}", ceilings.machine, kernel_table(report, ceilings),
                      expert_table(experts));
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"machine", ceilings.machine},
                                            {"device", device_name(engine.options().device)},
                                            {"kernels", kernels_to_json(report, ceilings)},
                                            {"experts", experts_to_json(experts)}}
                         .dump());
}

/// Of a step of decoding, whether its plan has one rank or several.
std::vector<ExpertCandidate> experts_of(const EngineBenchmark& load, const ModelEngine& engine,
                                        std::int64_t num_sequences) {
  const ModelConfig& config = engine.config();
  const EngineOptions& options = engine.options();
  return expert_candidates({.config = config,
                            .weights = load.expert_weights,
                            .plan = options.parallel,
                            .device = device_traits(options.device, 1),
                            .precision = options.precision,
                            .step_rows = (num_sequences + options.parallel.dp - 1) / options.parallel.dp,
                            .forced_variants = options.forced_variants});
}

/// Open sequences of a measurement, with history, and the tokens that they get.
struct MeasuredSequences {
  std::vector<SequenceId> ids;
  std::vector<TokenId> tokens;
  std::span<const TokenId> prompt, rest;  // of `tokens`

  MeasuredSequences(const EngineBenchmark& load, ModelEngine& engine, std::int64_t num_sequences,
                    std::int64_t num_warm_up_steps)
      : tokens(some_tokens(load.prompt + 2 * load.decode + num_warm_up_steps, engine.config().vocab_size)),
        prompt(std::span<const TokenId>(tokens).first(static_cast<std::size_t>(load.prompt))),
        rest(std::span<const TokenId>(tokens).subspan(prompt.size())) {
    for (std::int64_t i = 0; i < num_sequences; ++i) {
      ids.push_back(*engine.open_prompt({}, load.at + load.prompt));
      if (load.at > 0) engine.fabricate_history(ids.back(), load.at);
    }
  }
};

/// Steps of one token that are not measured.
void warm_up(ModelEngine& engine, std::span<const SequenceId> sequences, std::span<const TokenId> tokens) {
  engine.device().set_profiling(false);
  static_cast<void>(measure(engine, sequences, "warm-up", tokens, std::ssize(sequences)));
}

/// The same in sequences of their own: where a prompt's first positions have no logits.
void warm_up_apart(ModelEngine& engine, std::int64_t num_sequences, std::span<const TokenId> tokens) {
  std::vector<SequenceId> ids;
  for (std::int64_t i = 0; i < num_sequences; ++i) ids.push_back(*engine.open({}));
  warm_up(engine, ids, tokens);
  for (const SequenceId id : ids) engine.close(id, false);
}

}  // namespace

std::vector<Phase> measured_phases(const EngineBenchmark& load, ModelEngine& engine,
                                   std::int64_t num_sequences, std::int64_t num_warm_up_steps) {
  // The first steps read the weights from disk, load kernels and capture graphs; they are not measured.
  const auto num_warm_up = static_cast<std::size_t>(num_warm_up_steps);
  const std::int64_t replay = engine.options().bounded_replay_tokens;
  if (replay > 0)
    warm_up_apart(engine, num_sequences, some_tokens(num_warm_up_steps, engine.config().vocab_size));
  const MeasuredSequences opened(load, engine, num_sequences, num_warm_up_steps);
  const std::vector<SequenceId>& sequences = opened.ids;
  const std::span<const TokenId> prompt = opened.prompt, rest = opened.rest;
  if (replay == 0) warm_up(engine, sequences, rest.first(num_warm_up));
  // Where operations are queued, looking at each of them slows a step down: decoding is timed without, then
  // looked at.
  const bool queued = engine.device().traits().queues;
  std::vector<Phase> phases;
  const auto measure_phase = [&](const std::string& name, std::span<const TokenId> part,
                                 std::int64_t step_tokens, bool profile,
                                 WantedLogits before_last = WantedLogits::kLast) {
    engine.device().set_profiling(profile);
    phases.push_back(measure(engine, sequences, name, part, step_tokens, before_last));
  };
  if (load.prompt > 0) {
    measure_phase(replay > 0 ? fmt::format("prefill, bounded replay {}", replay) : "prefill", prompt,
                  engine.options().max_batch_tokens, true, wanted_within_prompt(engine));
  }
  std::optional<AcceptingEngine> accepting;
  if (load.drafts > 0) accepting.emplace(engine, load.acceptance);
  const auto measure_drafts = [&](const std::string& name, std::int64_t steps, bool profile) {
    engine.device().set_profiling(profile);
    phases.push_back(measure_drafting(engine, *accepting, sequences, name, rest.front(), steps, load.drafts));
  };
  if (load.decode > 0 && load.drafts > 0) {
    measure_drafts("warm-up", load.warm_up, false);
    phases.pop_back();
    const std::string name =
        fmt::format("decode at {} with {} drafts", engine.length(sequences.front()), load.drafts);
    measure_drafts(name, load.decode, !queued);
    if (queued)
      measure_drafts(name + ", operation by operation", std::min<std::int64_t>(load.decode, 4), true);
  } else if (load.decode > 0) {
    const auto half = rest.subspan(num_warm_up, static_cast<std::size_t>(load.decode));
    const std::string name = fmt::format("decode at {}", engine.length(sequences.front()));
    measure_phase(name, half, num_sequences, !queued);
    if (queued) {
      const auto looked_at = rest.subspan(num_warm_up + half.size(), std::min<std::size_t>(half.size(), 4));
      measure_phase(name + ", operation by operation", looked_at, num_sequences, true);
    }
  }
  for (const SequenceId sequence : sequences) engine.close(sequence, false);
  return phases;
}

namespace {

/// Measures so many sequences, or lists their variants, and prints it.
void measure_sequences(const EngineBenchmark& load, ModelEngine& engine, std::int64_t num_sequences,
                       std::int64_t num_warm_up_steps, const Ceilings& ceilings) {
  if (load.lists_kernels) {
    const MeasuredSequences opened(load, engine, num_sequences, num_warm_up_steps);
    return list_kernels(engine, opened.ids, opened.prompt, opened.rest, ceilings,
                        experts_of(load, engine, num_sequences), load.json);
  }
  const std::vector<Phase> phases = measured_phases(load, engine, num_sequences, num_warm_up_steps);
  if (!load.json) {
    if (load.sequences.size() > 1) fmt::print("\n{} sequences\n", num_sequences);
    for (const Phase& phase : phases) print_phase(phase, ceilings);
    return;
  }
  const std::optional<ExpertPlaceStats> places = engine.expert_places();
  nlohmann::ordered_json json{
      {"machine", ceilings.machine},
      {"device", device_name(engine.options().device)},
      {"ranks", engine.options().parallel.num_devices},
      {"plan", to_text(engine.options().parallel)},
      {"layers", engine.config().num_hidden_layers},
      {"made_up", load.made_up},
      {"drafts", load.drafts},
      {"bounded_replay", engine.options().bounded_replay_tokens},
      {"zipf", load.zipf ? nlohmann::ordered_json(*load.zipf) : nullptr},
      {"sequences", num_sequences},
      {"weight_bytes", engine.plan().weight_bytes},
      {"host_experts", engine.plan().experts.num_on_host},
      {"disk_experts", engine.plan().experts.num_on_disk},
      {"expert_slots", engine.plan().experts.num_slots},
      {"host_expert_bytes", engine.plan().host_expert_bytes},
      {"host_computes", places && places->computed},
      {"imposed_link_bytes_per_second", engine.options().imposed_link_rate
                                            ? nlohmann::ordered_json(*engine.options().imposed_link_rate)
                                            : nullptr},
      {"memory_rate", ceilings.memory},
      {"memory_bytes_per_second", ceilings.bytes_per_second},
      {"arithmetic_peak", ceilings.arithmetic},
      {"peak_flops_per_second", ceilings.flops_per_second},
      {"processor", processor_name()},
      {"threads", engine.options().num_threads},
      {"instruction_set", instruction_set_in_use()},
      {"phases", nlohmann::ordered_json::array()}};
  for (const Phase& phase : phases) json["phases"].push_back(to_json(phase, ceilings));
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);  // a later measurement may run out of time
}

}  // namespace

std::int64_t EngineBenchmark::max_sequences() const { return std::max(clients, std::ranges::max(sequences)); }

std::int64_t EngineBenchmark::positions() const {
  if (clients > 0) return prompt + decode + drafts;
  return at + prompt + (2 * decode + warm_up) * (1 + drafts);
}

void EngineBenchmark::fit(EngineOptions& options) const {
  options.max_sequences = max_sequences();
  if (options.cache_tokens == 0)
    options.cache_tokens = options.max_sequences * pages_for(positions()) * kPageTokens;
  if (drafts == 0) return;
  options.max_draft_tokens = drafts;
  options.choose_on_device = true;  // what is accepted is drawn for tokens, not for logits
}

void benchmark_serving(const EngineBenchmark& load, ModelEngine& engine) {
  engine.device().set_profiling(!engine.device().traits().queues);
  const MeasuredServing figures =
      measure_serving(engine, {.clients = load.clients,
                               .requests = load.requests > 0 ? load.requests : 4 * load.clients,
                               .prompt_tokens = load.prompt,
                               .reply_tokens = load.decode,
                               .drafts = load.drafts,
                               .acceptance = load.acceptance,
                               .scheduler = load.scheduler});
  if (!load.json) return fmt::print("{}", to_text(figures));
  nlohmann::ordered_json json{{"device", device_name(engine.options().device)},
                              {"plan", to_text(engine.options().parallel)},
                              {"layers", engine.config().num_hidden_layers},
                              {"made_up", load.made_up},
                              {"drafts", load.drafts},
                              {"processor", processor_name()}};
  json.update(to_json(figures));
  fmt::print("{}\n", json.dump());
}

void benchmark_phases(const EngineBenchmark& load, ModelEngine& engine) {
  const std::int64_t wanted = load.positions(), most_sequences = load.max_sequences();
  if (wanted > engine.config().max_position_embeddings ||
      wanted * most_sequences > engine.options().cache_tokens) {
    fail("bench: {} positions wanted for each of {} sequences, the cache holds {}, the model's context {}",
         wanted, most_sequences, engine.options().cache_tokens, engine.config().max_position_embeddings);
  }
  const Ceilings ceilings = measure_ceilings(engine);
  if (!load.json && !load.lists_kernels) {
    if (!load.made_up.empty()) fmt::print("made-up weights of {}{}\n", load.made_up, routing_text(load));
    fmt::print("{}\n{}", ceilings.machine, engine.memory_text());
  }
  std::int64_t num_warm_up_steps = load.warm_up;
  for (const std::int64_t num_sequences : load.sequences) {
    measure_sequences(load, engine, num_sequences, num_warm_up_steps, ceilings);
    num_warm_up_steps = kMinWarmUpSteps;
  }
}

}  // namespace baleen
