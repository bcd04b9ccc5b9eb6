#include "app/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/open_model.h"
#include "app/option_names.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/plan_explain.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "device/link_rate.h"
#include "device/make_device.h"
#include "device/profiled_device.h"
#include "engine/engine_limits.h"
#include "engine/memory_plan.h"
#include "hardware/device_profile.h"
#include "hardware/machine_memory.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "simulator/search/machine_outlook.h"

namespace baleen {
namespace {

struct PlanFlags {
  std::string device = "h200";
  SimulatedModelFlags model;
  MachineFlags machine;
  std::int64_t max_sequences = 1;
  std::int64_t max_batch_tokens = 4096;
  std::int64_t context = 0;
  std::int64_t drafts = 0;
  std::int64_t gpu_weight_bytes = 0;
  std::int64_t host_expert_bytes = 0;
  EngramWish engram = EngramWish::kAuto;
  std::int64_t bounded_replay = 0;
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
  std::optional<DeviceProfile> profile;  ///< none: no profile is of the GPU that is here
};

/// The GPU or the processor that is here, with what its machine is measured to have, where no option says it.
PlannedDevice device_that_is_here(const std::string& name, MachineFlags& machine) {
  const DeviceChoice choice = device_from_name(name);
  const auto device = make_device(choice, {});
  PlannedDevice planned{device->name(), choice, device->free_bytes(), std::nullopt};
  if (choice.is_cpu()) return planned;
  if (machine.host_memory_bytes == 0) machine.host_memory_bytes = available_memory_bytes();
  if (!machine.link_gbps && machine.pcie.empty()) {
    if (const double rate = measured_link_rate(*device); rate > 0) machine.link_gbps = 1e-9 * rate;
  }
  if (const DeviceProfile* profile = find_calibrated_profile_of_gpu(planned.name)) planned.profile = *profile;
  return planned;
}

PlannedDevice device_of(const std::string& name, MachineFlags& machine) {
  if (find_device_profile(name) != nullptr || name.ends_with(".json")) {
    DeviceProfile profile = load_device_profile(name);
    return {listed_text(profile), device_like(profile), profile.memory_bytes, std::move(profile)};
  }
  if (name != "cpu" && !name.starts_with("cuda") && name != "auto") {
    std::vector<std::string> known{"cpu", "cuda", "cuda:N", "auto"};
    for (const DeviceProfile& profile : device_profiles()) known.push_back(profile.name);
    fail("--device {}: there are {}, and .json files of profiles{}", name, fmt::join(known, ", "),
         did_you_mean(name, known));
  }
  return device_that_is_here(name, machine);
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
  options.engram = flags.engram;
  options.bounded_replay_tokens = flags.bounded_replay;
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
    return count < fewest_layers(model.config) ||
           total(small, with_layers(model.config, count)) <= device.memory_bytes;
  });
  if (layers < fewest_layers(model.config))
    return "no context fits: weights, activations and scratch alone are too much; fewer --max-batch-tokens "
           "take less\n";
  return fmt::format(
      "no context fits: weights, activations and scratch alone are too much. {} of {} layers would fit "
      "(--layers, for "
      "benchmarks); fewer --max-batch-tokens take less\n",
      layers, model.config.num_hidden_layers);
}

/// Of a disk of which nothing is said: an NVMe drive of PCIe 4.
constexpr double kAssumedDiskGbps = 5;

std::string outlook_text(const MachineOutlook& outlook, const OutlookLoad& load, bool disk_is_assumed) {
  std::string text = fmt::format(
      "\nestimated, experts used evenly and by Zipf's law with exponent 1:\n"
      "  one stream          {:>8.1f} and {:.1f} tokens/s\n",
      outlook.one_stream, outlook.one_stream_zipf);
  if (outlook.streams > 0) {
    text += fmt::format("  {:<20}{:>8.1f} and {:.1f} tokens/s together\n",
                        fmt::format("{} streams", load.num_streams), outlook.streams, outlook.streams_zipf);
  }
  text += fmt::format("  a prompt            {:>8.0f} tokens/s{}\n", outlook.prompt_tokens_per_second,
                      outlook.bounded_replay > 0
                          ? fmt::format(", all layers on its last {} alone", outlook.bounded_replay)
                          : "");
  if (outlook.start_seconds > 0) {
    text += fmt::format(
        "  first start         {:>8.0f} s to read {:.1f} GB{}\n", outlook.start_seconds,
        1e-9 * static_cast<double>(outlook.start_bytes),
        disk_is_assumed ? fmt::format(" at {:.0f} GB/s, assumed (--disk-gbps)", kAssumedDiskGbps) : "");
  }
  return text;
}

nlohmann::ordered_json outlook_json(const MachineOutlook& outlook, const OutlookLoad& load) {
  return {{"tokens_per_second", outlook.one_stream},
          {"tokens_per_second_zipf", outlook.one_stream_zipf},
          {"streams", load.num_streams},
          {"streams_tokens_per_second", outlook.streams},
          {"streams_tokens_per_second_zipf", outlook.streams_zipf},
          {"prompt_tokens_per_second", outlook.prompt_tokens_per_second},
          {"bounded_replay", outlook.bounded_replay},
          {"start_bytes", outlook.start_bytes},
          {"start_seconds", outlook.start_seconds}};
}

std::string changes_text(const std::vector<MachineChange>& changes) {
  if (changes.empty()) return "\nno change of the machine would make one stream 1% faster\n";
  std::string text = "\nwhat would help one stream most, with experts used evenly:\n";
  for (const MachineChange& change : changes) {
    text += fmt::format("  {:>6.2f}x  {:>7.1f} tokens/s, prompts {:>6.0f}: {}\n", change.gain,
                        change.outlook.one_stream, change.outlook.prompt_tokens_per_second,
                        in_options(change.what));
  }
  return text;
}

DeviceFlags device_flags(const PlanFlags& flags) {
  return {.model = flags.model,
          .device = flags.device,
          .gpu_weight_bytes = flags.gpu_weight_bytes,
          .host_expert_bytes = flags.host_expert_bytes,
          .machine = flags.machine};
}

/// Several devices of one machine, as a pipeline: `--device rtx-4090,rtx-3090`.
void run_staged_plan(const PlanFlags& flags) {
  std::vector<DeviceProfile> devices;
  for (std::size_t begin = 0; begin <= flags.device.size();) {
    const std::size_t end = std::min(flags.device.find(',', begin), flags.device.size());
    devices.push_back(load_device_profile(flags.device.substr(begin, end - begin)));
    begin = end + 1;
  }
  MachineFlags machine = flags.machine;
  const bool disk_is_assumed = !machine.disk_gbps;
  const bool all_have_hosts =
      std::ranges::none_of(devices, &std::vector<MemoryLevel>::empty, &DeviceProfile::memory_levels);
  if (disk_is_assumed && all_have_hosts) machine.disk_gbps = kAssumedDiskGbps;
  PlanFlags with_disk = flags;
  with_disk.machine = machine;
  for (DeviceProfile& device : devices) device = device_flags(with_disk).configured(device);
  const SimulatedModel model = flags.model.load();
  PlanFlags own = flags;
  if (own.host_expert_bytes == 0) own.host_expert_bytes = machine.expert_bytes();
  const OutlookLoad load;
  const auto staged =
      staged_outlook(model, devices, engine_options(own, device_like(devices.front()), model.config), load);
  if (!staged) {
    fail("--device {}: no pipeline of these holds {}; a smaller --context or --max-batch-tokens takes less",
         flags.device, model.name);
  }
  if (flags.json) {
    nlohmann::ordered_json json{{"model", model.name}, {"devices", flags.device}};
    json["stage_layers"] = staged->plan.stage_layers;
    json["outlook"] = outlook_json(staged->outlook, load);
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}: {} layers, {} routed experts, as a pipeline\n", model.name, model.config.num_hidden_layers,
             model.config.n_routed_experts);
  for (std::size_t i = 0; i < devices.size(); ++i)
    fmt::print("  {:>3} layers on {}\n", staged->plan.stage_layers[i], listed_text(devices[i]));
  fmt::print(
      "\n--pp {} --stage-layers {}; GPUs that do not reach each other's memory: --messages host-memory\n",
      devices.size(), fmt::join(staged->plan.stage_layers, ","));
  fmt::print("{}", outlook_text(staged->outlook, load, disk_is_assumed));
}

nlohmann::ordered_json plan_json(const std::string& model, const PlannedDevice& device,
                                 const DevicePlacement& placed, double bytes_per_token) {
  const MemoryPlan& plan = placed.memory;
  return {{"model", model},
          {"device", device.name},
          {"memory_bytes", device.memory_bytes},
          {"fits", placed.fits},
          {"weight_bytes", plan.weight_bytes},
          {"host_experts", plan.experts.num_on_host},
          {"disk_experts", plan.experts.num_on_disk},
          {"host_expert_bytes", plan.host_expert_bytes},
          {"host_embedding_bytes", plan.host_embedding_bytes},
          {"engram_place", plan.engram_place ? nlohmann::ordered_json(engram_place_name(*plan.engram_place))
                                             : nlohmann::ordered_json()},
          {"engram_bytes", plan.engram_bytes},
          {"host_engram_bytes", plan.host_engram_bytes},
          {"engram_table_bytes", plan.engram_table_bytes},
          {"page_bytes", plan.page_bytes},
          {"window_bytes", plan.window_bytes},
          {"state_bytes", plan.state_bytes},
          {"activation_bytes", plan.activation_bytes},
          {"scratch_bytes", plan.scratch_bytes},
          {"logit_bytes", plan.logit_bytes},
          {"overhead_bytes", plan.overhead_bytes},
          {"total_bytes", plan.total_bytes()},
          {"cache_bytes_per_token", bytes_per_token}};
}

void print_placement(const PlanFlags& flags, const SimulatedModel& model, const PlannedDevice& device,
                     const EngineOptions& options, const DevicePlacement& placed, double bytes_per_token) {
  constexpr double kGB = 1e-9;
  fmt::print("{}: {} layers, {} routed experts, on {}\n", model.name, model.config.num_hidden_layers,
             model.config.n_routed_experts, device.name);
  fmt::print("{} sequences, {} positions in all, steps of {} tokens{}; {:.2f} KB of cache a position\n\n",
             options.max_sequences, options.cache_tokens, options.max_batch_tokens,
             options.max_draft_tokens > 0 ? fmt::format(", {} drafts", options.max_draft_tokens) : "",
             1e-3 * bytes_per_token);
  const MemoryPlan& plan = placed.memory;
  fmt::print("{}\n", to_text(plan));
  const double free = static_cast<double>(device.memory_bytes - plan.total_bytes()) * kGB;
  if (placed.fits) {
    fmt::print("fits in {:.1f} GB, {:.1f} GB are left; ", static_cast<double>(device.memory_bytes) * kGB,
               free);
  } else {
    fmt::print("does not fit in {:.1f} GB: {:.1f} GB too much; ",
               static_cast<double>(device.memory_bytes) * kGB, -free);
    if (placed.why_not) fmt::print("{}; ", in_options(placed.why_not->message));
  }
  // Advice is for weights that lie on the GPU whole.
  if (!placed.fits || plan.experts.num_away() == 0) {
    fmt::print("{}", advice(flags, model, device, placed.fits));
  } else if (plan.experts.num_on_disk > 0) {
    fmt::print("experts that do not are read from the host's memory and from disk: --host-experts-bytes {}\n",
               options.host_expert_bytes.value_or(0));
  } else {
    fmt::print("experts that do not are read from the host's memory\n");
  }
}

void run_plan(PlanFlags flags) {
  if (flags.device.find(',') != std::string::npos) {
    if (flags.explain) fail("--explain is of one kind of device; --device names several: {}", flags.device);
    return run_staged_plan(flags);
  }
  if (flags.explain && flags.device == "cpu") {
    DeviceFlags simulated{.model = flags.model, .device = "local"};  // measured
    return explain_plans(simulated.model.load(), simulated.load_device(), flags.num_devices,
                         flags.bounded_replay);
  }
  std::optional<CheckpointKind> kind;
  SimulatedModel model = flags.model.load(&kind);
  model.engram = flags.engram;
  if (kind) {
    log_findings(*kind);
    if (flags.drafts > 0) check_drafts(*kind, fmt::format("--speculate {}", flags.drafts));
  }
  PlannedDevice device = device_of(flags.device, flags.machine);
  if (flags.host_expert_bytes == 0) flags.host_expert_bytes = flags.machine.expert_bytes();
  if (flags.host_expert_bytes == 0 && device.profile && !device.choice.is_cpu() &&
      !device.profile->memory_levels.empty())
    flags.host_expert_bytes = device.profile->memory_levels.front().bytes;
  const EngineOptions options = engine_options(flags, device.choice, model.config);
  const DevicePlacement placed =
      placed_on_device(model, options, device.memory_bytes, flags.machine.expert_bytes());
  const double bytes_per_token = cache_geometry(model.config, options).bytes_per_token();

  const OutlookLoad load;
  const bool disk_is_assumed = !flags.machine.disk_gbps;
  std::optional<MachineOutlook> outlook;
  if (device.profile) {
    if (disk_is_assumed && !device.profile->memory_levels.empty()) flags.machine.disk_gbps = kAssumedDiskGbps;
    device.profile->memory_bytes = device.memory_bytes;
    device.profile = device_flags(flags).configured(*device.profile);
    if (!device.choice.is_cpu()) outlook = machine_outlook(model, *device.profile, options, load);
  }
  if (flags.json) {
    nlohmann::ordered_json json = plan_json(model.name, device, placed, bytes_per_token);
    if (outlook) json["outlook"] = outlook_json(*outlook, load);
    fmt::print("{}\n", json.dump());
    return;
  }
  print_placement(flags, model, device, options, placed, bytes_per_token);
  if (outlook) fmt::print("{}", outlook_text(*outlook, load, disk_is_assumed));
  if (!flags.explain) return;
  if (!device.profile) fail("no device profile is of a {}: --explain has nothing to count with", device.name);
  if (outlook) {
    fmt::print("{}\n", changes_text(helpful_changes(model, *device.profile, options, load,
                                                    flags.machine.host_memory_bytes)));
  }
  explain_plans(model, *device.profile, flags.num_devices, flags.bounded_replay);
}

}  // namespace

void add_plan_command(Options& command) {
  auto flags = std::make_shared<PlanFlags>();
  flags->model.add_to(command);
  std::string known =
      "cpu, cuda:N, or one that need not be here; several, as rtx-4090,rtx-3090: a pipeline of them:";
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
  command.bytes(
      "--host-experts-bytes", flags->host_expert_bytes, kWeightBytesRange,
      "Most pinned memory of the host for the embedding and experts that do not fit on a GPU; 0: what "
      "they need. The rest is read from disk");
  add_engram_option(command, flags->engram);
  flags->machine.add_to(command);
  add_bounded_replay_option(command, flags->bounded_replay);
  command.flag("--no-prefix-cache", flags->no_prefix_cache, "No pages for cached prefixes");
  const Option explain = command.flag("--explain", flags->explain,
                                      "What would help most on one device, which parallel plan the "
                                      "simulator recommends, and why not the others; cpu: this machine, "
                                      "measured now");
  command.integer("--devices", flags->num_devices, {1, 4096}, "With --explain: so many of the device")
      .needs(explain);
  command.flag("--json", flags->json, "One JSON line").excludes(explain);
  command.action([flags] { run_plan(*flags); });
}

}  // namespace baleen
