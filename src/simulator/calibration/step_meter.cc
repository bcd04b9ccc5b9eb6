#include "simulator/calibration/step_meter.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/error.h"

namespace baleen {
namespace {

constexpr std::int64_t kIndexerRatio = 4;

/// Decoding goes through every phase of the compressors that most layers with an indexer have.
std::int64_t steps_of_window(const StepSetting& setting) { return setting.decodes() ? kIndexerRatio : 1; }

/// Of sorted repetitions the one that counts: the lower quartile. What neighbours on a shared machine add is
/// never negative and comes in bursts that can outlast half of the repetitions; the quickest one may be luck.
std::size_t quartile(std::size_t num_repetitions) { return num_repetitions / 4; }

}  // namespace

struct StepMeter::Window {
  std::vector<OpGraph> graphs;
  std::map<std::string, OpRecord> records;  ///< empty without profiling
  double wall_seconds = 0;
  bool selects = true;  ///< the indexer had more entries to look at than it may select

  [[nodiscard]] double operation_seconds() const {
    double sum = 0;
    for (const auto& [name, record] : records) sum += record.seconds;
    return sum;
  }
};

StepMeter::StepMeter(Engine& engine, const DeviceProfile& device)
    : engine_(engine),
      device_(device),
      model_(engine.config(),
             {.dense = engine.config().dense_format, .experts = engine.config().expert_format},
             resolved({.num_devices = 1}, engine.config())) {}

std::int64_t StepMeter::positions_needed(const StepSetting& setting, int repetitions) {
  constexpr std::int64_t kRounds = 2;  // with and without looking at operations
  return setting.context +
         (setting.decodes() ? kRounds * (repetitions + 1) * kIndexerRatio : setting.num_tokens);
}

std::vector<TokenId> StepMeter::some_tokens(std::int64_t count) {
  std::uniform_int_distribution<TokenId> ids(0, static_cast<TokenId>(engine_.config().vocab_size - 1));
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens) token = ids(random_);
  return tokens;
}

OpGraph StepMeter::graph_of(std::span<const SequenceId> sequences, const StepSetting& setting,
                            const std::vector<std::vector<std::int64_t>>& load_before) const {
  RankBatch batch;
  for (const SequenceId sequence : sequences) {
    const std::int64_t start = engine_.length(sequence) - setting.num_tokens;
    batch.push_back({.start = start, .num_tokens = setting.num_tokens, .num_logits = 1});
  }
  const std::vector<std::vector<std::int64_t>> load = engine_.expert_load();
  const auto active = [&](std::int64_t block) {
    const auto b = static_cast<std::size_t>(block);
    double count = 0;
    for (std::size_t expert = 0; expert < load[b].size(); ++expert)
      count += load[b][expert] > load_before[b][expert] ? 1 : 0;
    return count;
  };
  return record_step(model_, batch, {.decode = setting.decodes()},
                     {.activations = engine_.device().traits().activation_type,
                      .fuses = device_.fuses,
                      .active_experts = active});
}

StepMeter::Window StepMeter::run_window(std::span<const SequenceId> sequences, const StepSetting& setting,
                                        bool profile) {
  Window window;
  engine_.device().set_profiling(profile);
  engine_.device().profile().clear();
  for (std::int64_t step = 0; step < steps_of_window(setting); ++step) {
    const std::vector<TokenId> tokens = some_tokens(setting.num_rows());
    const SampleRow greedy;
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto count = static_cast<std::size_t>(setting.num_tokens);
      inputs.push_back({sequences[i], std::span(tokens).subspan(i * count, count), WantedLogits::kLast});
      if (engine_.limits().chooses) inputs.back().draws = {&greedy, 1};
    }
    const auto load_before = engine_.expert_load();
    const auto start = std::chrono::steady_clock::now();
    const Result<StepOutput> output = engine_.step(inputs);
    if (!output) fail("calibrating: {}", output.error());
    window.wall_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (profile) window.graphs.push_back(graph_of(sequences, setting, load_before));
    window.selects =
        window.selects && (engine_.length(sequences.front()) - setting.num_tokens) / kIndexerRatio >
                              engine_.config().index_topk;
  }
  for (const auto& [name, record] : engine_.device().profile().records())
    window.records[std::string(name)] = record;
  engine_.device().set_profiling(false);
  return window;
}

std::vector<SequenceId> StepMeter::open(const StepSetting& setting) {
  std::vector<SequenceId> sequences;
  for (std::int64_t i = 0; i < setting.num_sequences; ++i) {
    const std::optional<SequenceId> sequence = engine_.open({});
    if (!sequence) fail("calibrating: no room for {} sequences", setting.num_sequences);
    sequences.push_back(*sequence);
    if (setting.context > 0) engine_.fabricate_history(*sequence, setting.context);
  }
  return sequences;
}

void StepMeter::close(std::span<const SequenceId> sequences) {
  for (const SequenceId sequence : sequences) engine_.close(sequence, false);
}

StepMeasurement StepMeter::measure(const StepSetting& setting, int repetitions) {
  std::vector<SequenceId> sequences = open(setting);
  std::vector<double> hosts;  // in no operation; negative: less than operations that are looked at take
  std::vector<Window> windows;
  const auto run = [&](bool profile) {
    Window window = run_window(sequences, setting, profile);
    if (!setting.decodes()) {  // the next prompt is as far in as this one was
      close(sequences);
      sequences = open(setting);
    }
    return window;
  };
  for (int i = 0; i <= repetitions; ++i) {
    // Where operations are queued, looking at each of them slows a step down.
    const double unobserved = device_.is_cpu ? 0 : run(false).wall_seconds;
    Window window = run(true);
    if (i == 0) continue;
    hosts.push_back((device_.is_cpu ? window.wall_seconds : unobserved) - window.operation_seconds());
    windows.push_back(std::move(window));
  }
  close(sequences);

  StepMeasurement found;
  double calls = 0;
  std::map<std::string, double> calls_of;
  std::vector<const Window*> by_time;
  for (const Window& window : windows) by_time.push_back(&window);
  for (const auto& [name, unused] : windows.front().records) {
    // The repetition in which this operation took its typical time, with what it had to do then.
    std::ranges::sort(by_time, {}, [&](const Window* window) { return window->records.at(name).seconds; });
    const Window& window = *by_time[quartile(by_time.size())];
    const OpRecord& record = window.records.at(name);
    calls += static_cast<double>(record.calls);
    if (name == "indexer" && !window.selects) continue;  // kernels skip scores that decide nothing
    for (OperationSample& sample : ideal_samples(window.graphs, device_)) {
      if (sample.operation != name) continue;
      sample.seconds = record.seconds;
      calls_of[name] = static_cast<double>(record.calls);
      found.samples.push_back(std::move(sample));
    }
  }
  // Looking at an operation by itself costs a launch that a queue or a captured graph hides.
  std::ranges::sort(hosts);
  const double host = hosts[quartile(hosts.size())];
  const double excess = std::max(0.0, -host) / calls;
  constexpr double kLeastKept = 0.2;  // of a measured time
  for (OperationSample& sample : found.samples) {
    sample.seconds =
        std::max(kLeastKept * sample.seconds, sample.seconds - excess * calls_of[sample.operation]);
  }
  found.host_seconds = std::max(0.0, host) / static_cast<double>(steps_of_window(setting));
  return found;
}

}  // namespace baleen
