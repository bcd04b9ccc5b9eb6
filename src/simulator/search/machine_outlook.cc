#include "simulator/search/machine_outlook.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "device/profiled_device.h"
#include "engine/engram_memory.h"
#include "engine/expert_memory.h"
#include "model/stage_layers.h"

namespace baleen {
namespace {

/// The share of Zipf's law that outlooks are stated for beside even use.
constexpr double kZipf = 1;
/// Below it a change is not worth its line.
constexpr double kLeastGain = 1.01;
constexpr double kGB = 1e-9;

/// Formats that no kernel of the device's uses have no rate: what is computed in them is dequantised.
DeviceProfile with_rates_of_kernels(DeviceProfile device) {
  if (device.is_cpu || device.capability_major == 0 || traits_like(device).has_fp8_units) return device;
  for (const PeakFormat format : {PeakFormat::kFp8, PeakFormat::kFp4})
    device.peak_flops[static_cast<std::size_t>(format)] = 0;
  return device;
}

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

/// What experts and tables may take of the host's memory; 0: what they need.
std::int64_t host_bytes_of(const DeviceProfile& device) {
  return device.memory_levels.empty() ? 0 : device.memory_levels.front().bytes;
}

/// A pipeline of devices, or one of them, with what the engine leaves to the host on each.
class PlacedStages {
 public:
  PlacedStages(const SimulatedModel& model, std::span<const DeviceProfile> devices,
               const EngineOptions& options, const ParallelPlan& plan)
      : options_(options), ranks_(model, plan) {
    for (const DeviceProfile& device : devices) devices_.push_back(with_rates_of_kernels(device));
    options_.parallel = plan;
    for (std::int64_t i = 0; i < plan.pp; ++i) place(i);
  }

  [[nodiscard]] bool fits() const { return fits_; }
  [[nodiscard]] std::int64_t start_bytes() const { return start_bytes_; }
  [[nodiscard]] double start_seconds() const {
    double slowest = 0;
    for (const DeviceProfile& device : devices_) {
      if (device.memory_levels.size() < 2) return 0;
      slowest =
          std::max(slowest, static_cast<double>(start_bytes_) / device.memory_levels[1].bytes_per_second);
    }
    return slowest;
  }

  [[nodiscard]] double step_seconds(const Workload& workload) const {
    const RankBatch batch = rank_batch(workload, ranks_.plan());
    const std::int64_t micro_batches = std::min(ranks_.plan().pp, std::ssize(batch));
    const RankBatch part(batch.begin(),
                         batch.begin() + (std::ssize(batch) + micro_batches - 1) / micro_batches);
    double sum = 0, slowest = 0, host = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const PlacedStage& placed = stages_[i];
      const StageEstimate timed =
          estimate_stage(ranks_.of(placed.stage), part, workload, devices_[i], placed.experts, placed.tables);
      sum += timed.seconds + timed.send_seconds;
      slowest = std::max(slowest, timed.seconds);
      host = std::max(host, devices_[i].host_seconds_per_step);
    }
    return std::max(sum, static_cast<double>(micro_batches) * slowest) + host;
  }

 private:
  struct PlacedStage {
    Stage stage;
    HostExperts experts;
    EngramReads tables;
  };

  void place(std::int64_t number) {
    const SimulatedModel& model = ranks_.model();
    const DeviceProfile& device = devices_[static_cast<std::size_t>(number)];
    const Stage stage = stage_of(model.config, ranks_.plan(), number);
    const RankModel& rank = ranks_.of(stage);
    options_.device = device_like(device);
    MemoryPlan plan;
    if (ranks_.plan().pp == 1) {
      const DevicePlacement placed =
          placed_on_device(model, options_, device.memory_bytes, host_bytes_of(device));
      fits_ &= placed.fits;
      plan = placed.memory;
    } else {
      plan = plan_memory(rank.config(), rank.weight_bytes(), options_);
      const auto why_not =
          leave_experts_to_host(plan, movable_experts(rank.config(), rank.weights(), rank.plan(), options_),
                                options_, device.memory_bytes);
      fits_ &= !why_not;
      const std::int64_t on_host = host_bytes_of(device);
      if (fits_)
        fits_ &= !place_engram(plan, model.config, options_, device.memory_bytes,
                               on_host == 0 ? kUnbounded : on_host - plan.host_weight_bytes());
      fits_ &= plan.total_bytes() <= device.memory_bytes;
    }
    // Nothing is known of how quickly comes what lies farther than the profile reaches.
    const bool needs_disk = plan.experts.num_on_disk > 0 || plan.engram_place == EngramPlace::kDisk;
    const bool needs_host = plan.host_weight_bytes() > 0 || plan.engram_place == EngramPlace::kHost;
    const std::size_t levels_needed = needs_disk ? 2 : needs_host ? 1 : 0;
    fits_ &= device.memory_levels.size() >= levels_needed;
    if (!fits_) return;
    start_bytes_ += plan.weight_bytes + plan.host_weight_bytes();
    if (plan.engram_place == EngramPlace::kDevice || plan.engram_place == EngramPlace::kHost)
      start_bytes_ += plan.engram_table_bytes;
    RankMemory memory;
    memory.experts = plan.experts;
    memory.engram_place = plan.engram_place;
    stages_.push_back({stage, host_experts(rank, memory, device), EngramReads(model.config, memory, device)});
  }

  std::vector<DeviceProfile> devices_;
  EngineOptions options_;
  PlanRanks ranks_;
  std::vector<PlacedStage> stages_;
  std::int64_t start_bytes_ = 0;
  bool fits_ = true;
};

std::optional<MachineOutlook> outlook_of(const SimulatedModel& model, std::span<const DeviceProfile> devices,
                                         const EngineOptions& options, const ParallelPlan& plan,
                                         const OutlookLoad& load) {
  const PlacedStages one(model, devices, options, plan);
  if (!one.fits()) return std::nullopt;
  MachineOutlook outlook;
  const auto context_of = [&](std::int64_t streams) {
    return std::clamp<std::int64_t>(options.cache_tokens / streams - 1, 0, load.context_length);
  };
  Workload step{.context_length = context_of(1), .decode = true};
  outlook.one_stream = 1 / one.step_seconds(step);
  step.zipf = kZipf;
  outlook.one_stream_zipf = 1 / one.step_seconds(step);

  EngineOptions many = options;
  many.max_sequences = std::max(options.max_sequences, load.num_streams);
  many.max_logit_rows = std::max(options.max_logit_rows, load.num_streams);
  many.max_batch_tokens = std::max(options.max_batch_tokens, load.num_streams);
  const PlacedStages several(model, devices, many, plan);
  if (several.fits()) {
    const auto streams = static_cast<double>(load.num_streams);
    Workload together{
        .num_queries = load.num_streams, .context_length = context_of(load.num_streams), .decode = true};
    outlook.streams = streams / several.step_seconds(together);
    together.zipf = kZipf;
    outlook.streams_zipf = streams / several.step_seconds(together);
  }

  const std::int64_t tokens = std::min(load.prompt_tokens, options.cache_tokens);
  double seconds = 0;
  for (std::int64_t done = 0; done < tokens; done += options.max_batch_tokens) {
    const std::int64_t count = std::min(options.max_batch_tokens, tokens - done);
    seconds += one.step_seconds({.query_length = count,
                                 .context_length = done,
                                 .bounded_replay = options.bounded_replay_tokens,
                                 .prompt_behind = tokens - done - count});
  }
  outlook.prompt_tokens_per_second = static_cast<double>(tokens) / seconds;
  outlook.bounded_replay = options.bounded_replay_tokens;
  outlook.start_bytes = one.start_bytes();
  outlook.start_seconds = one.start_seconds();
  return outlook;
}

ParallelPlan plan_of_one(const ModelConfig& config) {
  return resolved(ParallelPlan{.num_devices = 1}, config);
}

/// Memory of which tables of so many bytes may take the share that is theirs.
std::int64_t with_share_of_tables(std::int64_t table_bytes) {
  return static_cast<std::int64_t>(static_cast<double>(table_bytes) / kShareOfHostForTables) + 1;
}

double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) * kGB; }

}  // namespace

DevicePlacement placed_on_device(const SimulatedModel& model, const EngineOptions& options,
                                 std::int64_t device_memory_bytes, std::int64_t host_memory_bytes) {
  DevicePlacement placed{.memory = plan_memory(model.config, model.formats, options)};
  placed.why_not = leave_experts_to_host(placed.memory, movable_experts(model.config, model.formats, options),
                                         options, device_memory_bytes);
  const std::int64_t free_on_host =
      host_memory_bytes == 0 ? kUnbounded : host_memory_bytes - placed.memory.host_weight_bytes();
  if (!placed.why_not)
    placed.why_not = place_engram(placed.memory, model.config, options, device_memory_bytes, free_on_host);
  placed.fits = !placed.why_not && placed.memory.total_bytes() <= device_memory_bytes;
  return placed;
}

std::optional<MachineOutlook> machine_outlook(const SimulatedModel& model, const DeviceProfile& device,
                                              const EngineOptions& options, const OutlookLoad& load) {
  return outlook_of(model, std::span(&device, 1), options, plan_of_one(model.config), load);
}

std::optional<StagedOutlook> staged_outlook(const SimulatedModel& model,
                                            std::span<const DeviceProfile> devices,
                                            const EngineOptions& options, const OutlookLoad& load) {
  std::vector<StageDevice> stages;
  for (const DeviceProfile& device : devices) {
    EngineOptions own = options;
    own.device = device_like(device);
    const MemoryPlan plan = plan_memory(model.config, model.formats, own);
    stages.push_back({.weight_bytes = device.memory_bytes - (plan.total_bytes() - plan.weight_bytes),
                      .memory_bytes_per_second = device.memory_bytes_per_second * device.efficiency.memory,
                      .link_bytes_per_second = device.memory_levels.empty()
                                                   ? 0
                                                   : device.memory_levels.front().kernel_bytes_per_second});
  }
  const auto layers = balanced_stage_layers(model.config, model.formats, stages);
  if (!layers) return std::nullopt;
  const auto count = static_cast<std::int64_t>(devices.size());
  const ParallelPlan plan =
      resolved({.num_devices = count, .pp = count, .stage_layers = *layers}, model.config);
  const auto outlook = outlook_of(model, devices, options, plan, load);
  if (!outlook) return std::nullopt;
  return StagedOutlook{plan, *outlook};
}

std::vector<MachineChange> helpful_changes(const SimulatedModel& model, const DeviceProfile& device,
                                           const EngineOptions& options, const OutlookLoad& load,
                                           std::int64_t host_memory_bytes) {
  std::vector<MachineChange> changes;
  const std::optional<MachineOutlook> now = machine_outlook(model, device, options, load);
  if (!now) return changes;
  const auto try_change = [&](std::string what, const DeviceProfile& changed_device,
                              const EngineOptions& changed_options, std::int64_t num_devices = 1) {
    const std::vector<DeviceProfile> devices(static_cast<std::size_t>(num_devices), changed_device);
    const ParallelPlan pipeline = resolved({.num_devices = num_devices, .pp = num_devices}, model.config);
    const std::optional<MachineOutlook> then = outlook_of(model, devices, changed_options, pipeline, load);
    if (!then) return;
    const double gain = then->one_stream / now->one_stream;
    if (gain >= kLeastGain) changes.push_back({std::move(what), *then, gain});
  };
  const MemoryPlan plan = placed_on_device(model, options, device.memory_bytes, host_bytes_of(device)).memory;

  // A memory of the host, a link or a disk of the machine as it is, but better.
  const auto with = [&](const std::function<void(DeviceProfile&)>& change) {
    DeviceProfile changed = device;
    change(changed);
    return changed;
  };
  const auto double_rates = [](MemoryLevel& level) {
    level.bytes_per_second *= 2;
    level.kernel_bytes_per_second *= 2;
  };
  const bool tables_on_disk = plan.engram_place == EngramPlace::kDisk;
  if (plan.experts.num_on_disk > 0 || tables_on_disk) {
    if (host_memory_bytes > 0 && options.host_expert_bytes) {
      // All that is not on the device, and as much as is kept beside experts now, as modules are sold.
      constexpr std::int64_t kModule = 32'000'000'000;
      const std::int64_t beside = host_memory_bytes - *options.host_expert_bytes;
      const std::int64_t tables = tables_on_disk ? with_share_of_tables(plan.engram_table_bytes) : 0;
      const std::int64_t all = beside + plan.host_weight_bytes() + plan.disk_expert_bytes + tables;
      for (const std::int64_t bytes : {2 * host_memory_bytes, (all + kModule - 1) / kModule * kModule}) {
        if (bytes <= host_memory_bytes || (bytes != 2 * host_memory_bytes && bytes < 2 * host_memory_bytes))
          continue;
        EngineOptions more = options;
        more.host_expert_bytes = bytes - beside;
        const auto changed =
            with([&](DeviceProfile& profile) { profile.memory_levels.front().bytes = bytes - beside; });
        try_change(fmt::format("{:.0f} GB of host memory instead of {:.0f}", gigabytes(bytes),
                               gigabytes(host_memory_bytes)),
                   changed, more);
      }
    }
    if (device.memory_levels.size() > 1) {
      const auto changed = with([&](DeviceProfile& profile) { double_rates(profile.memory_levels[1]); });
      try_change(fmt::format("a disk of {:.1f} GB/s instead of {:.1f}",
                             changed.memory_levels[1].bytes_per_second * kGB,
                             device.memory_levels[1].bytes_per_second * kGB),
                 changed, options);
    }
  }
  if (plan.experts.num_away() > 0 && !device.memory_levels.empty()) {
    const MemoryLevel& host = device.memory_levels.front();
    const auto linked = with([&](DeviceProfile& profile) {
      double_rates(profile.memory_levels.front());
      profile.memory_levels.front().compute.copies_beside_bytes_per_second *= 2;
    });
    try_change(
        fmt::format("copies from the host at {:.0f} GB/s instead of {:.0f}: twice the lanes, or the next "
                    "generation of PCIe",
                    2 * host.bytes_per_second * kGB, host.bytes_per_second * kGB),
        linked, options);
    if (device.computes_on_host) {
      const auto read = with([&](DeviceProfile& profile) {
        HostCompute& compute = profile.memory_levels.front().compute;
        compute.bytes_per_second *= 2;
        compute.beside_copies_bytes_per_second *= 2;
      });
      try_change(
          fmt::format("host memory that its cores read at {:.0f} GB/s instead of {:.0f}: more channels, "
                      "or quicker modules",
                      2 * host.compute.bytes_per_second * kGB, host.compute.bytes_per_second * kGB),
          read, options);
    }
    try_change("a second device like it, as a pipeline of two", device, options, 2);
    if (options.cache_tokens >= 4 * kPageTokens) {
      EngineOptions less = options;
      less.cache_tokens /= 4;
      try_change(fmt::format("‹context› {} instead of {}", less.cache_tokens, options.cache_tokens), device,
                 less);
    }
    constexpr std::int64_t kSmallSteps = 512;
    if (options.max_batch_tokens > kSmallSteps) {
      EngineOptions less = options;
      less.max_batch_tokens = kSmallSteps;
      less.max_logit_rows = std::min(less.max_logit_rows, kSmallSteps);
      try_change(fmt::format("‹step tokens› {} instead of {}", kSmallSteps, options.max_batch_tokens), device,
                 less);
    }
  }
  std::ranges::stable_sort(changes, std::greater{}, &MachineChange::gain);
  return changes;
}

}  // namespace baleen
