#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trainer/estimate/run_estimate.h"

namespace baleen {
namespace {

double matrix_flops(const RunStepEstimate& estimate) {
  double flops = 0;
  for (const RunPartEstimate& part : estimate.parts) flops += part.matrix_flops;
  return flops;
}

std::int64_t tokens_of_step(const TrainConfig& config) {
  return config.data.batch_rows * config.data.sequence_length;
}

}  // namespace

std::string run_estimate_table(const TrainConfig& config, const DeviceProfile& device, std::int64_t num_ranks,
                               const RunStepEstimate& estimate, const TrainingMemoryPlan& memory) {
  const double seconds = estimate.seconds();
  std::string text = fmt::format("this program's trainer on {}{}\nsteps of {} tokens at most\n\n",
                                 num_ranks > 1 ? fmt::format("{} times ", num_ranks) : "", device.description,
                                 tokens_of_step(config));
  text += fmt::format("{:<34}{:>12}{:>9}{:>12}\n", "part of a step", "ms", "share", "GFLOP");
  const auto row = [&](std::string_view name, double part_seconds, double flops) {
    text += fmt::format("{:<34}{:>12.3f}{:>8.1f}%{:>12}\n", name, 1e3 * part_seconds,
                        100 * part_seconds / seconds, flops > 0 ? fmt::format("{:.3f}", 1e-9 * flops) : "");
  };
  for (const RunPartEstimate& part : estimate.parts) row(part.name, part.seconds, part.matrix_flops);
  row("step", seconds, matrix_flops(estimate));
  text += fmt::format("\n{:.0f} tokens/s\n\n", static_cast<double>(tokens_of_step(config)) / seconds);
  return text + memory.table();
}

std::string run_estimate_json(const TrainConfig& config, const RunStepEstimate& estimate,
                              const TrainingMemoryPlan& memory) {
  nlohmann::ordered_json json{
      {"step_seconds", estimate.seconds()},
      {"tokens_per_second", static_cast<double>(tokens_of_step(config)) / estimate.seconds()},
      {"parts", nlohmann::ordered_json::array()}};
  for (const RunPartEstimate& part : estimate.parts)
    json["parts"].push_back({{"part", part.name}, {"seconds", part.seconds}, {"flops", part.matrix_flops}});
  for (const TrainingMemoryPart& part : memory.parts) json["memory"][part.name] = part.bytes;
  json["memory_bytes"] = memory.total_bytes();
  return json.dump();
}

}  // namespace baleen
