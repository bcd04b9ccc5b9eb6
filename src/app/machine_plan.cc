#include "app/machine_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "device/device_choice.h"
#include "hardware/device_profile.h"
#include "simulator/search/machine_outlook.h"

namespace baleen {
namespace {

/// A prompt and a reply of the load that plans are compared at, in tokens; shorter for models with less
/// context.
constexpr std::int64_t kPromptTokens = 4096, kReplyTokens = 1024;

/// "0,1"
std::string list_text(const std::vector<DeviceChoice>& gpus) {
  std::vector<int> indices;
  indices.reserve(gpus.size());
  for (const DeviceChoice& gpu : gpus) indices.push_back(gpu.index);
  return fmt::format("{}", fmt::join(indices, ","));
}

void use(EngineOptions& options, const std::vector<DeviceChoice>& gpus, std::int64_t count) {
  options.rank_devices.assign(gpus.begin(), gpus.begin() + count);
  options.device = gpus.front();
}

/// Of a plan that the user gave.
std::string place_plan(EngineOptions& options, const ModelConfig& config, const GpuGroup& gpus) {
  const std::int64_t ranks = resolved(options.parallel, config).num_devices;
  const bool enough = ranks <= std::ssize(gpus.gpus);
  if (enough && ranks_can_run(options.parallel, config, gpus.gpus.front())) {
    use(options, gpus.gpus, ranks);
    return fmt::format("plan: its {} ranks run on GPUs {}; --device cpu is the other choice", ranks,
                       list_text(options.rank_devices));
  }
  options.device = {};
  if (!enough)
    return fmt::format("plan: {} ranks run on the CPU, because this machine has {} GPU{} that they could use",
                       ranks, gpus.gpus.size(), gpus.gpus.size() == 1 ? "" : "s");
  return "plan: its ranks run on the CPU, because GPUs do not run such a plan; --devices says why";
}

}  // namespace

bool ranks_can_run(const ParallelPlan& plan, const ModelConfig& config, const DeviceChoice& device) {
  EngineOptions options{.device = device, .parallel = plan};
  if (!device.is_cpu()) {
    const std::int64_t ranks = resolved(plan, config).num_devices;
    for (int rank = 0; rank < ranks; ++rank)
      options.rank_devices.push_back({device.architecture, rank, device.as_card});
  }
  try {
    static_cast<void>(resolved(options, config));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool can_be_recommended(const ParallelPlan& plan, const ModelConfig& config, const DeviceChoice& device) {
  return !plan.dual_batch_overlap && ranks_can_run(plan, config, device);
}

std::string place_in_stages(EngineOptions& options, const SimulatedModel& model,
                            const std::vector<SeparateGpu>& gpus) {
  if (gpus.size() < 2) return "";
  std::vector<DeviceProfile> profiles;
  std::vector<DeviceChoice> choices;
  for (const SeparateGpu& gpu : gpus) {
    const DeviceProfile* profile = find_calibrated_profile_of_gpu(gpu.name);
    if (profile == nullptr)
      return fmt::format("plan: one of {} GPUs, because no device profile is of a {}", gpus.size(), gpu.name);
    profiles.push_back(*profile);
    profiles.back().memory_bytes = gpu.free_bytes;
    choices.push_back(gpu.choice);
  }
  const EngineOptions full = resolved(options, model.config);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    EngineOptions own = full;
    own.device = choices[i];
    const DevicePlacement placed = placed_on_device(model, own, gpus[i].free_bytes);
    if (!placed.fits || placed.memory.experts.num_away() > 0) continue;
    options.device = choices[i];
    return fmt::format(
        "plan: GPU {} alone, which holds the model; the {} GPUs do not reach each other's memory",
        choices[i].index, gpus.size());
  }
  const auto staged = staged_outlook(model, profiles, full, {});
  if (!staged) {
    return fmt::format(
        "plan: one of {} GPUs, because no pipeline of them has memory for the whole model; `baleen plan` "
        "says "
        "more",
        gpus.size());
  }
  options.parallel = staged->plan;
  options.messages = GpuMessages::kHostMemory;
  use(options, choices, std::ssize(choices));
  return fmt::format(
      "plan: {} on GPUs {}, which do not reach each other's memory: messages through the host's, {:.1f} "
      "tokens/s "
      "estimated; --devices and --pp, --stage-layers choose another",
      to_text(staged->plan), list_text(choices), staged->outlook.one_stream);
}

std::string place_on_gpus(EngineOptions& options, const SimulatedModel& model, const EnginePurpose& purpose,
                          const GpuGroup& gpus) {
  if (!options.parallel.is_one_rank()) return place_plan(options, model.config, gpus);
  if (gpus.gpus.size() < 2) return "";
  const DeviceProfile* profile = find_calibrated_profile_of_gpu(gpus.name);
  if (profile == nullptr) {
    return fmt::format("plan: one of {} GPUs, because no device profile is of a {}; --devices {} takes all",
                       gpus.gpus.size(), gpus.name, list_text(gpus.gpus));
  }
  const std::int64_t positions = model.config.max_position_embeddings;
  PlanRequest request{.num_devices = std::ssize(gpus.gpus), .goal = purpose.goal};
  request.load.prompt_tokens = std::min(kPromptTokens, positions / 2);
  request.load.reply_tokens = std::min(kReplyTokens, positions / 4);
  request.load.concurrency = purpose.sequences;
  request.can_run = [&](const ParallelPlan& plan) {
    return can_be_recommended(plan, model.config, gpus.gpus.front());
  };
  const std::optional<RecommendedPlan> best = recommended_plan(model, *profile, request);
  if (!best) {
    return fmt::format(
        "plan: one of {} GPUs, because no plan of them has memory for the whole model; `baleen plan` says "
        "more",
        gpus.gpus.size());
  }
  const std::int64_t ranks = best->plan.num_devices;
  if (ranks > 1) {
    options.parallel = best->plan;
    use(options, gpus.gpus, ranks);
  }
  return fmt::format(
      "plan: {} on GPU{} {}: {}; --devices and --tp, --dp, ... choose another", to_text(best->plan),
      ranks == 1 ? "" : "s",
      ranks == 1 ? fmt::format("{}", gpus.gpus.front().index) : list_text(options.rank_devices),
      best->reason);
}

}  // namespace baleen
