#include "benchmark/phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

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

struct Figures {
  double gb_per_second = 0;
  double gflop_per_second = 0;
  double memory_share = 0;      ///< bytes a second over the rate of memory
  double arithmetic_share = 0;  ///< FLOPs a second over the arithmetic peak
};

Figures figures(const OpCost& cost, double seconds, const Ceilings& ceilings) {
  const double bytes = cost.total_bytes() / seconds, flops = cost.total_flops() / seconds;
  return {bytes * 1e-9, flops * 1e-9, bytes / ceilings.bytes_per_second, flops / ceilings.flops_per_second};
}

/// Clears the device's profile and notes where counts begin.
void begin(Phase& phase, ModelEngine& engine) {
  engine.device().profile().clear();
  if (const auto places = engine.expert_places()) {
    phase.experts = places->fetched;
    phase.computed = places->computed;
  }
}

/// `steps`: seconds of each.
void finish(Phase& phase, std::vector<double>& steps, ModelEngine& engine) {
  std::ranges::sort(steps);
  phase.steps = std::ssize(steps);
  phase.median_seconds = steps[steps.size() / 2];
  phase.records = engine.device().profile().records();
  phase.total = engine.device().profile().total();
  if (!phase.experts) return;
  const ExpertFetchCounts before = *phase.experts;
  const ExpertPlaceStats now = *engine.expert_places();
  phase.experts = now.fetched;
  *phase.experts -= before;
  if (!now.computed || !phase.computed) return;
  const HostComputeStats computed_before = *phase.computed;
  phase.computed = now.computed;
  phase.computed->requests -= computed_before.requests;
  phase.computed->seconds -= computed_before.seconds;
}

constexpr SampleRow kGreedy{};

/// A step of a sequence with drafts, and what came of it.
struct DraftingSequence {
  SequenceId id{};
  std::vector<TokenId> fed;      ///< the newest token, then the drafts
  std::vector<SampleRow> draws;  ///< one for each row
};

/// Queues one step of all, the engine chaining the drafts.
Result<StepOutput> run_queued(AcceptingEngine& engine, std::span<DraftingSequence> sequences,
                              std::int64_t num_drafts) {
  std::vector<StepInput> inputs;
  for (const DraftingSequence& one : sequences) {
    inputs.push_back({.sequence = one.id,
                      .tokens = std::span(one.fed).first(1),
                      .draws = one.draws,
                      .wants_draft_logits = false,
                      .num_drafts = num_drafts});
  }
  if (auto failed = engine.queue(inputs)) return std::move(*failed);
  Result<StepOutput> output = engine.collect();
  if (!output) return output;
  auto drafted = output.value().drafted.begin();
  for (DraftingSequence& one : sequences) {
    one.fed.insert(one.fed.end(), drafted, drafted + num_drafts);
    drafted += num_drafts;
  }
  return output;
}

/// The same link by link, for engines that run one step at a time.
Result<StepOutput> run_linked(AcceptingEngine& engine, std::span<DraftingSequence> sequences,
                              std::int64_t num_drafts) {
  for (std::int64_t depth = 0; depth < num_drafts; ++depth) {
    std::vector<DraftInput> links;
    for (const DraftingSequence& one : sequences) links.push_back({one.id, one.fed.back(), kGreedy});
    const Result<DraftOutput> output = engine.draft(links, depth);
    if (!output) return Failure{output.error()};
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].fed.push_back(output.value().chosen[i]);
  }
  std::vector<StepInput> inputs;
  for (const DraftingSequence& one : sequences) {
    inputs.push_back({.sequence = one.id,
                      .tokens = one.fed,
                      .wanted = WantedLogits::kAll,
                      .draws = one.draws,
                      .wants_draft_logits = false});
  }
  return engine.step(inputs);
}

}  // namespace

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

Phase measure(ModelEngine& engine, std::span<const SequenceId> sequences, const std::string& name,
              std::span<const TokenId> tokens, std::int64_t step_tokens, WantedLogits before_last) {
  const auto num_sequences = static_cast<std::int64_t>(sequences.size());
  Phase phase{.name = name, .tokens = static_cast<std::int64_t>(tokens.size()) * num_sequences};
  begin(phase, engine);
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
    const bool is_last = begin + share >= tokens.size();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      inputs.push_back({sequences[i],
                        std::span(own[i]).subspan(begin, std::min(tokens.size() - begin, share)),
                        is_last ? WantedLogits::kLast : before_last});
      if (engine.limits().chooses && inputs.back().wanted != WantedLogits::kNone)
        inputs.back().draws = {&greedy, 1};
    }
    if (!ahead) {
      note(engine.step(inputs));
      continue;
    }
    if (const auto failed = engine.queue(inputs)) fail("{}", failed->message);
    if (begin > 0) note(engine.collect());
  }
  if (ahead) note(engine.collect());
  finish(phase, steps, engine);
  return phase;
}

Phase measure_drafting(ModelEngine& engine, AcceptingEngine& accepting, std::span<const SequenceId> sequences,
                       const std::string& name, TokenId first, std::int64_t num_steps,
                       std::int64_t num_drafts) {
  Phase phase{.name = name};
  phase.drafts_by_depth.resize(static_cast<std::size_t>(num_drafts));
  begin(phase, engine);
  const bool queues = engine.limits().queues;
  const auto num_rows = static_cast<std::size_t>(num_drafts + 1);
  std::vector<DraftingSequence> parts;
  const TokenId newest[] = {first};
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    parts.push_back({.id = sequences[i],
                     .fed = tokens_of(i, newest, engine.config().vocab_size),
                     .draws = std::vector<SampleRow>(num_rows, kGreedy)});
  }
  const std::int64_t room = std::max(num_drafts + 1, engine.limits().least_draft_room);
  std::vector<double> steps;
  auto last = Clock::now();
  for (std::int64_t step = 0; step < num_steps; ++step) {
    std::vector<std::int64_t> lengths;
    for (const DraftingSequence& part : parts) {
      lengths.push_back(engine.length(part.id));
      if (!accepting.reserve(part.id, room)) fail("bench: no room for {} drafts", num_drafts);
    }
    const Result<StepOutput> output =
        queues ? run_queued(accepting, parts, num_drafts) : run_linked(accepting, parts, num_drafts);
    if (!output) fail("{}", output.error());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      DraftingSequence& part = parts[i];
      const auto chosen = output.value().chosen.subspan(i * num_rows, num_rows);
      const std::int64_t kept = num_accepted(std::span(part.fed).subspan(1), chosen);
      accepting.truncate(part.id, lengths[i] + 1 + kept);
      part.fed.assign(1, chosen[static_cast<std::size_t>(kept)]);
      phase.tokens += 1 + kept;
      phase.drafted += num_drafts;
      for (std::int64_t depth = 0; depth < num_drafts; ++depth) {
        DraftsAtDepth& at = phase.drafts_by_depth[static_cast<std::size_t>(depth)];
        ++at.drafted;
        at.accepted += depth < kept ? 1 : 0;
      }
    }
    const auto now = Clock::now();
    steps.push_back(std::chrono::duration<double>(now - last).count());
    phase.seconds += steps.back();
    last = now;
  }
  finish(phase, steps, engine);
  return phase;
}

void print_phase(const Phase& phase, const Ceilings& ceilings) {
  const double steps_seconds = phase.seconds;
  fmt::print("\n{}: {} tokens in {:.3f} s, {:.1f} tokens/s, {:.3f} ms a step (median)\n", phase.name,
             phase.tokens, steps_seconds, static_cast<double>(phase.tokens) / steps_seconds,
             1e3 * phase.median_seconds);
  if (phase.drafted > 0) {
    fmt::print("{:.2f} tokens a step, {:.3f} ms a token\n",
               static_cast<double>(phase.tokens) / static_cast<double>(phase.steps),
               1e3 * phase.seconds_per_token());
    fmt::print("{}\n", acceptance_text(phase.drafts_by_depth));
  }
  fmt::print("{:<18}{:>8}{:>12}{:>8}{:>10}{:>11}{:>9}{:>9}\n", "operation", "calls", "ms", "share", "GB/s",
             "GFLOP/s", "of " + ceilings.memory, "of " + ceilings.arithmetic);
  std::vector<std::pair<std::string_view, OpRecord>> rows(phase.records.begin(), phase.records.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  rows.emplace_back("all", phase.total);
  rows.back().second.seconds = steps_seconds;  // what is between the operations counts too
  for (const auto& [name, record] : rows) {
    const Figures f = figures(record.cost, record.seconds, ceilings);
    fmt::print("{:<18}{:>8}{:>12.3f}{:>7.1f}%{:>10.2f}{:>11.1f}{:>8.0f}%{:>8.0f}%\n", name, record.calls,
               1e3 * record.seconds, 100 * record.seconds / steps_seconds, f.gb_per_second,
               f.gflop_per_second, 100 * f.memory_share, 100 * f.arithmetic_share);
  }
}

nlohmann::ordered_json to_json(const Phase& phase, const Ceilings& ceilings) {
  const auto row = [&](std::string_view name, const OpRecord& record, double seconds) {
    const Figures f = figures(record.cost, seconds, ceilings);
    return nlohmann::ordered_json{{"operation", name},
                                  {"calls", record.calls},
                                  {"seconds", seconds},
                                  {"bytes", record.cost.total_bytes()},
                                  {"flops", record.cost.total_flops()},
                                  {"gb_per_second", f.gb_per_second},
                                  {"gflop_per_second", f.gflop_per_second},
                                  {"share_of_memory_rate", f.memory_share},
                                  {"share_of_arithmetic_peak", f.arithmetic_share}};
  };
  nlohmann::ordered_json json{{"phase", phase.name},
                              {"tokens", phase.tokens},
                              {"steps", phase.steps},
                              {"drafted_tokens", phase.drafted},
                              {"drafts_by_depth", acceptance_json(phase.drafts_by_depth)},
                              {"seconds", phase.seconds},
                              {"median_step_seconds", phase.median_seconds},
                              {"operations", nlohmann::ordered_json::array()}};
  for (const auto& [name, record] : phase.records)
    json["operations"].push_back(row(name, record, record.seconds));
  json["all"] = row("all", phase.total, phase.seconds);
  if (phase.experts) {
    json["experts"] = {{"gpu", phase.experts->resident},
                       {"slot", phase.experts->in_slots},
                       {"host", phase.experts->from_host},
                       {"disk", phase.experts->from_disk},
                       {"guessed", phase.experts->guessed},
                       {"guessed_chosen", phase.experts->guessed_chosen},
                       {"bytes_ahead", phase.experts->bytes_ahead},
                       {"bytes_behind", phase.experts->bytes_behind},
                       {"computed", phase.experts->computed},
                       {"computed_rows", phase.experts->computed_rows},
                       {"wait_seconds", 1e-9 * static_cast<double>(phase.experts->waited_ns)},
                       {"fetch_seconds", 1e-9 * static_cast<double>(phase.experts->fetch_ns)}};
    if (phase.computed) {
      const HostComputeStats& computed = *phase.computed;
      json["host_cores"] = {{"requests", computed.requests},
                            {"seconds", computed.seconds},
                            {"compute_expert_us", 1e-3 * computed.times.compute_expert},
                            {"compute_row_us", 1e-3 * computed.times.compute_row},
                            {"fetch_expert_us", 1e6 * computed.fetch_seconds},
                            {"hand_over_us", 1e-3 * computed.times.hand_over}};
    }
  }
  return json;
}

}  // namespace baleen
