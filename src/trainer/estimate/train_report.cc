#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trainer/estimate/train_estimate.h"

namespace baleen {

std::vector<std::pair<std::string, double>> TrainEstimate::parts() const {
  return {{"forward", forward_seconds},
          {"backward", backward_seconds},
          {"recomputation", recompute_seconds},
          {"pipeline bubble", bubble_seconds},
          {"gradients, weights", gradient_seconds},
          {"Muon, AdamW", optimiser_seconds}};
}

std::string training_table(const SimulatedModel& model, const ParallelPlan& plan, const TrainingLoad& load,
                           const DeviceProfile& device, const TrainEstimate& e) {
  std::string text =
      fmt::format("{} on {}\n{}; steps of {} tokens in {} micro-batches of {} x {} tokens a group\n\n",
                  model.name, device.description, to_text(plan), load.global_batch_tokens,
                  e.num_micro_batches, load.micro_batch_sequences, load.sequence_length);
  text += fmt::format("{:<22}{:>12}{:>9}\n", "part of a step", "seconds", "share");
  const auto add = [&](const std::string& name, double seconds) {
    text += fmt::format("{:<22}{:>12.3f}{:>8.1f}%\n", name, seconds, 100 * seconds / e.seconds);
  };
  for (const auto& [name, seconds] : e.parts()) add(name, seconds);
  add("step", e.seconds);
  text += fmt::format(
      "\n{:.0f} tokens/s, {:.0f} a device; {:.1f}% of the BF16 peak; Muon computes {:.1f} PFLOP, {:.2f}% of "
      "the model's\n",
      e.tokens_per_second, e.tokens_per_second / static_cast<double>(plan.num_devices),
      100 * e.model_flops_utilisation(device, plan.num_devices), 1e-15 * e.muon_flops,
      100 * e.muon_flops / e.model_flops);
  text += fmt::format("\n{:<22}{:>12}\n", "memory a device", "GB");
  constexpr double kGB = 1e-9;
  for (const auto& [name, bytes] : e.memory)
    text += fmt::format("{:<22}{:>12.3f}\n", name, static_cast<double>(bytes) * kGB);
  const double free = static_cast<double>(e.device_memory_bytes - e.memory_bytes) * kGB;
  text += fmt::format("{:<22}{:>12.3f}  of {:.3f}: ", "in all", static_cast<double>(e.memory_bytes) * kGB,
                      static_cast<double>(e.device_memory_bytes) * kGB);
  return text + (e.fits() ? fmt::format("{:.3f} are left\n", free) : fmt::format("{:.3f} too much\n", -free));
}

std::string training_json(const TrainEstimate& e) {
  nlohmann::ordered_json json{{"step_seconds", e.seconds},
                              {"forward_seconds", e.forward_seconds},
                              {"backward_seconds", e.backward_seconds},
                              {"recompute_seconds", e.recompute_seconds},
                              {"bubble_seconds", e.bubble_seconds},
                              {"gradient_seconds", e.gradient_seconds},
                              {"optimiser_seconds", e.optimiser_seconds},
                              {"tokens_per_second", e.tokens_per_second},
                              {"muon_flops", e.muon_flops},
                              {"model_flops", e.model_flops},
                              {"num_micro_batches", e.num_micro_batches}};
  for (const auto& [name, bytes] : e.memory) json["memory"][name] = bytes;
  json["memory_bytes"] = e.memory_bytes;
  json["device_memory_bytes"] = e.device_memory_bytes;
  json["fits"] = e.fits();
  return json.dump();
}

}  // namespace baleen
