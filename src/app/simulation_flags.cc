#include "app/simulation_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/plan_flags.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "checkpoint/folder_check.h"
#include "device/profiled_device.h"
#include "log/log.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "simulator/calibration/calibrate.h"
#include "trainer/estimate/training_shares.h"

namespace baleen {
namespace {

/// The name of no profile: a measurement.
constexpr const char* kLocalDevice = "local";

}  // namespace

void SimulatedModelFlags::add_to(Options& command) {
  std::string known = "A folder with config.json, or a known geometry:";
  for (const Preset& preset : presets()) known += fmt::format("\n  {}: {}", preset.name, preset.description);
  command.path("MODEL,--model,-m,--preset", model, known);
  command.integer("--layers,--num-hidden-layers-override", num_layers, kLayersRange,
                  "Keep the first so many layers");
}

SimulatedModel SimulatedModelFlags::load(std::optional<CheckpointKind>* kind) const {
  SimulatedModel loaded{model, {}, {}};
  const auto from_config = [&] {
    loaded.formats = {.dense = loaded.config.dense_format, .experts = loaded.config.expert_format};
  };
  if (std::ranges::find(presets(), model, &Preset::name) != presets().end()) {
    loaded.config = preset_config(model);
    from_config();
  } else if (has_weights(model)) {
    ModelFolder folder = open_model_folder(model);
    check_tensors(folder.stored, folder.checkpoint);
    loaded.formats = detect_formats(folder.config, folder.checkpoint);
    loaded.config = std::move(folder.config);
    if (kind != nullptr) *kind = std::move(folder.kind);
  } else {
    if (!std::filesystem::exists(model) && model.find('/') == std::string::npos) {
      std::vector<std::string> names;
      for (const Preset& preset : presets()) names.emplace_back(preset.name);
      fail("{}: neither a folder nor a known geometry; there are {}{}", model, fmt::join(names, ", "),
           did_you_mean(model, names));
    }
    loaded.config = load_config(model);
    from_config();
  }
  if (num_layers) loaded.config = with_layers(std::move(loaded.config), *num_layers);
  return loaded;
}

Option add_tokens_a_step_option(Options& command, std::optional<double>& tokens) {
  constexpr RealRange kTokens{.min = 1, .max = static_cast<double>(kDraftsRange.max) + 1};
  return command.real(
      "--tokens-a-step", tokens, kTokens,
      "Tokens that a step with drafts yields in the mean, each draft as often right as the others");
}

Option add_published_acceptance_option(Options& command, std::vector<double>& shares) {
  return command.reals(
      "--acceptance", shares, {.min = 0, .max = 1},
      "Share of chains that are accepted up to their first, second, ... draft, as engines "
      "publish it, e.g. 0.579,0.447,0.316; behind the last as that one after the one before");
}

void DeviceFlags::add_to(Options& command) {
  model.add_to(command);
  std::string known =
      "One of these, a .json file of a profile, or local: this machine's processor, measured now (baleen "
      "calibrate keeps what it measures):";
  for (const DeviceProfile& profile : device_profiles())
    known += fmt::format("\n  {}: {}", profile.name, listed_text(profile));
  command.path("--device,-d", device, known);
  command.real_without_default("--reserved-memory-gb", reserved_gb, kGigabytesRange,
                               "GB of a device that are not for the model; otherwise the profile's");
  command.bytes("--gpu-weights-bytes", gpu_weight_bytes, kWeightBytesRange,
                "Of one device: most that weights take of its memory; routed experts beyond lie on the host. "
                "0: what is "
                "free");
  command.bytes("--host-experts-bytes", host_expert_bytes, kWeightBytesRange,
                "Most memory of the host that those experts take; 0: what they need");
  add_engram_option(command, engram);
  machine.add_to(command);
}

SimulatedModel DeviceFlags::load_model() const {
  SimulatedModel loaded = model.load();
  loaded.engram = engram;
  return loaded;
}

void DeploymentFlags::add_to(Options& command) {
  DeviceFlags::add_to(command);
  add_plan_options(command, plan);
}

DeviceProfile DeviceFlags::load_device() const {
  return configured(
      device == kLocalDevice
          ? calibrate({.quick = true, .date = today(), .measure_further = measure_all_training_shares})
          : load_device_profile(device));
}

DeviceProfile DeviceFlags::configured(DeviceProfile profile) const {
  constexpr double kGB = 1e9;
  if (reserved_gb > 0) profile.reserved_bytes = static_cast<std::int64_t>(reserved_gb * kGB);
  if (gpu_weight_bytes > 0) profile.most_weight_bytes = gpu_weight_bytes;
  if ((gpu_weight_bytes > 0 || host_expert_bytes > 0) && profile.memory_levels.empty()) {
    fail(
        "--gpu-weights-bytes and --host-experts-bytes: profile {} knows no memory beyond the device's; its "
        "memory_levels "
        "would say how quickly that is copied",
        profile.name);
  }
  machine.apply(profile);
  if (host_expert_bytes > 0) profile.memory_levels.front().bytes = host_expert_bytes;
  if (profile.links.empty())
    profile.links = {{.size = 1, .bytes_per_second = profile.memory_bytes_per_second}};
  if (const std::string why = why_not_scratch(traits_like(profile)); !why.empty())
    log_line("scratch of kernels is not known and not counted: {}", why);
  return profile;
}

ParallelPlan DeploymentFlags::legal_plan(const ModelConfig& config, const DeviceProfile& profile) const {
  if (plan.prefill_groups > 0) {
    fail(
        "--prefill-groups {}: not simulated; --disaggregate of `simulate serve` and `plan` has prompts on "
        "devices of their own, with this plan on either side",
        plan.prefill_groups);
  }
  const bool on_gpus = profile.fuses && !profile.is_cpu;  // with this program's kernels
  const ParallelPlan full = resolved(on_gpus ? with_experts_of_gpus(plan) : plan, config);
  validate(full, config);
  return full;
}

}  // namespace baleen
