#include "app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "app/open_model.h"
#include "app/option_names.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/plan_explain.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "device/make_device.h"
#include "device/profiled_device.h"
#include "engine/engine_limits.h"
#include "engine/expert_memory.h"
#include "engine/memory_plan.h"
#include "hardware/device_profile.h"
#include "model/presets.h"

namespace baleen {
namespace {

struct PlanFlags {
  std::string device = "h200";
  SimulatedModelFlags model;
  std::int64_t max_sequences = 1;
  std::int64_t max_batch_tokens = 4096;
  std::int64_t context = 0;
  std::int64_t drafts = 0;
  std::int64_t gpu_weight_bytes = 0;
  std::int64_t host_expert_bytes = 0;
  bool no_prefix_cache = false;
  std::int64_t num_devices = 1;
  bool json = false;
  bool explain = false;
};

/// A device by its profile, or the one that is here.
struct PlannedDevice {
  std::string name;
  DeviceChoice choice;
  std::int64_t memory_bytes = 0;
};

PlannedDevice device_of(const std::string& name) {
  if (const DeviceProfile* profile = find_device_profile(name)) {
    return {listed_text(*profile), device_like(*profile), profile->memory_bytes};
  }
  if (name != "cpu" && !name.starts_with("cuda") && name != "auto") {
    std::string known;
    for (const DeviceProfile& profile : device_profiles()) known += fmt::format(", {}", profile.name);
    fail("--device {}: there are cpu, cuda, cuda:N, auto{}", name, known);
  }
  const DeviceChoice choice = device_from_name(name);
  const auto device = make_device(choice, {});
  return {device->name(), choice, device->free_bytes()};
}

EngineOptions engine_options(const PlanFlags& flags, const DeviceChoice& device, const ModelConfig& config) {
  EngineOptions options;
  options.device = device;
  options.max_sequences = flags.max_sequences;
  options.max_batch_tokens = flags.max_batch_tokens;
  options.cache_tokens = flags.context;
  options.max_draft_tokens = flags.drafts;
  options.prefix_cache = !flags.no_prefix_cache;
  if (flags.gpu_weight_bytes > 0) options.gpu_weight_bytes = flags.gpu_weight_bytes;
  if (flags.host_expert_bytes > 0) options.host_expert_bytes = flags.host_expert_bytes;
  return resolved(options, config);
}

/// The largest value of [0, most] for which `fits`, which holds for all smaller values too; -1 when it holds
/// for none.
template <class Fits>
std::int64_t largest(std::int64_t most, Fits&& fits) {
  std::int64_t low = -1, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// What could be changed, and by how much, as sentences.
std::string advice(const PlanFlags& flags, const SimulatedModel& model, const PlannedDevice& device,
                   bool fits) {
  const auto total = [&](const PlanFlags& changed, const ModelConfig& config) {
    return plan_memory(config, model.formats, engine_options(changed, device.choice, config)).total_bytes();
  };
  PlanFlags changed = flags;
  const std::int64_t most_tokens = model.config.max_position_embeddings * flags.max_sequences;
  const std::int64_t pages = largest(most_tokens / kPageTokens, [&](std::int64_t count) {
    changed.context = std::max<std::int64_t>(1, count * kPageTokens);
    return total(changed, model.config) <= device.memory_bytes;
  });
  if (pages * kPageTokens >= most_tokens) return "every position the model has would fit\n";
  if (pages > 0) {
    return fmt::format("--context {} {}: positions over all sequences\n", pages * kPageTokens,
                       fits ? "would still fit" : "would fit");
  }
  const std::int64_t layers = largest(model.config.num_hidden_layers - 1, [&](std::int64_t count) {
    PlanFlags small = flags;
    small.context = kPageTokens;
    return count == 0 || total(small, with_layers(model.config, count)) <= device.memory_bytes;
  });
  return fmt::format(
      "no context fits: weights, activations and scratch alone are too much. {} of {} layers would fit "
      "(--layers, for "
      "benchmarks); fewer --max-batch-tokens take less\n",
      layers, model.config.num_hidden_layers);
}

void run_plan(const PlanFlags& flags) {
  if (flags.explain) {
    DeviceFlags simulated{.model = flags.model,
                          .device = flags.device,
                          .gpu_weight_bytes = flags.gpu_weight_bytes,
                          .host_expert_bytes = flags.host_expert_bytes};
    if (flags.device == "cpu") simulated.device = "local";  // measured
    return explain_plans(simulated.model.load(), simulated.load_device(), flags.num_devices);
  }
  std::optional<CheckpointKind> kind;
  const SimulatedModel model = flags.model.load(&kind);
  if (kind) {
    log_findings(*kind);
    if (flags.drafts > 0) check_drafts(*kind, fmt::format("--speculate {}", flags.drafts));
  }
  const PlannedDevice device = device_of(flags.device);
  const EngineOptions options = engine_options(flags, device.choice, model.config);
  MemoryPlan plan = plan_memory(model.config, model.formats, options);
  const auto why_not = leave_experts_to_host(plan, movable_experts(model.config, model.formats, options),
                                             options, device.memory_bytes);
  const CacheGeometry geometry = cache_geometry(model.config, options);
  const bool fits = !why_not && plan.total_bytes() <= device.memory_bytes;
  if (flags.json) {
    const nlohmann::ordered_json json{{"model", model.name},
                                      {"device", device.name},
                                      {"memory_bytes", device.memory_bytes},
                                      {"fits", fits},
                                      {"weight_bytes", plan.weight_bytes},
                                      {"host_experts", plan.experts.num_on_host},
                                      {"disk_experts", plan.experts.num_on_disk},
                                      {"host_expert_bytes", plan.host_expert_bytes},
                                      {"page_bytes", plan.page_bytes},
                                      {"window_bytes", plan.window_bytes},
                                      {"state_bytes", plan.state_bytes},
                                      {"activation_bytes", plan.activation_bytes},
                                      {"scratch_bytes", plan.scratch_bytes},
                                      {"logit_bytes", plan.logit_bytes},
                                      {"overhead_bytes", plan.overhead_bytes},
                                      {"total_bytes", plan.total_bytes()},
                                      {"cache_bytes_per_token", geometry.bytes_per_token()}};
    fmt::print("{}\n", json.dump());
    return;
  }
  constexpr double kGB = 1e-9;
  fmt::print("{}: {} layers, {} routed experts, on {}\n", model.name, model.config.num_hidden_layers,
             model.config.n_routed_experts, device.name);
  fmt::print("{} sequences, {} positions in all, steps of {} tokens{}; {:.2f} KB of cache a position\n\n",
             options.max_sequences, options.cache_tokens, options.max_batch_tokens,
             options.max_draft_tokens > 0 ? fmt::format(", {} drafts", options.max_draft_tokens) : "",
             1e-3 * geometry.bytes_per_token());
  fmt::print("{}\n", to_text(plan));
  const double free = static_cast<double>(device.memory_bytes - plan.total_bytes()) * kGB;
  if (fits) {
    fmt::print("fits in {:.1f} GB, {:.1f} GB are left; ", static_cast<double>(device.memory_bytes) * kGB,
               free);
  } else {
    fmt::print("does not fit in {:.1f} GB: {:.1f} GB too much; ",
               static_cast<double>(device.memory_bytes) * kGB, -free);
    if (why_not) fmt::print("{}; ", in_options(why_not->message));
  }
  // Advice is for weights that lie on the GPU whole.
  fmt::print("{}", fits && plan.experts.num_on_host > 0
                       ? "experts that do not are read from the host's memory\n"
                       : advice(flags, model, device, fits));
}

}  // namespace

void add_plan_command(Options& command) {
  auto flags = std::make_shared<PlanFlags>();
  flags->model.add_to(command);
  std::string known = "cpu, cuda:N, or one that need not be here:";
  for (const DeviceProfile& profile : device_profiles())
    known += fmt::format("\n  {}: {}", profile.name, listed_text(profile));
  command.text("--device,-d", flags->device, known);
  command.integer("--max-sequences", flags->max_sequences, kSequencesRange, "Replies at a time");
  command.integer("--max-batch-tokens", flags->max_batch_tokens, kStepTokensRange,
                  "Tokens of one step, over all sequences");
  command.integer("--context", flags->context, kPositionsRange,
                  "Positions the cache holds; 0: the model's whole context");
  command.integer("--speculate", flags->drafts, kDraftsRange, "Tokens drafted for each step");
  command.bytes("--gpu-weights-bytes", flags->gpu_weight_bytes, kWeightBytesRange,
                "Most that weights take of a GPU's memory; 0: what is free");
  command.bytes("--host-experts-bytes", flags->host_expert_bytes, kWeightBytesRange,
                "Most pinned memory of the host for experts that do not fit on a GPU; 0: what they need. The "
                "rest is read from disk");
  command.flag("--no-prefix-cache", flags->no_prefix_cache, "No pages for cached prefixes");
  const Option explain = command.flag("--explain", flags->explain,
                                      "Which parallel plan the simulator recommends, and why not the others; "
                                      "cpu: this machine, measured now");
  command.integer("--devices", flags->num_devices, {1, 4096}, "With --explain: so many of the device")
      .needs(explain);
  command.flag("--json", flags->json, "One JSON line").excludes(explain);
  command.action([flags] { run_plan(*flags); });
}

}  // namespace baleen
