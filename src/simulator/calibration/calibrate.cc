#include "simulator/calibration/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/progress.h"
#include "device/make_device.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "simulator/calibration/fit_operation.h"
#include "simulator/calibration/step_meter.h"

namespace baleen {
namespace {

/// A model and the steps of it that are measured.
struct CalibrationModel {
  ModelConfig config;
  std::vector<StepSetting> settings;
};

struct CalibrationPlan {
  std::vector<CalibrationModel> models;
  int repetitions = 0;
};

/// Decoding with as many sequences, behind each of `contexts` that all together stay below `most_positions`.
void add_decoding(CalibrationModel& model, std::span<const std::int64_t> sequences,
                  std::span<const std::int64_t> contexts, std::int64_t most_positions) {
  for (const std::int64_t count : sequences) {
    for (const std::int64_t context : contexts) {
      if (count * context <= most_positions)
        model.settings.push_back({.num_sequences = count, .context = context});
    }
  }
}

void add_prompts(CalibrationModel& model, std::span<const std::int64_t> chunks,
                 std::span<const std::int64_t> contexts) {
  for (const std::int64_t chunk : chunks) {
    for (const std::int64_t context : contexts)
      model.settings.push_back({.num_tokens = chunk, .context = context});
  }
}

/// Every kind of layer, large matrices that come from memory, and small ones whose time is that of a call.
CalibrationPlan cpu_plan(bool quick) {
  constexpr std::int64_t kMaxPositions = 100'000;
  CalibrationModel large{.config = preset_config("bench-1b")},
      small{.config = preset_config("tiny-real-heads")};
  if (quick) {
    constexpr std::int64_t kLayers = 4,
                           kExperts = 8;  // of every kind; making weights up takes most of the time
    large.config = with_experts(with_layers(std::move(large.config), kLayers), kExperts);
    add_decoding(large, std::vector<std::int64_t>{1, 4, 16, 64}, std::vector<std::int64_t>{3000},
                 2 * kMaxPositions);
    add_prompts(large, std::vector<std::int64_t>{128, 512}, std::vector<std::int64_t>{3000});
    add_decoding(small, std::vector<std::int64_t>{1, 4, 16, 64}, std::vector<std::int64_t>{600},
                 kMaxPositions);
    add_prompts(small, std::vector<std::int64_t>{128, 512}, std::vector<std::int64_t>{0});
    return {{large, small}, 3};
  }
  add_decoding(large, std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64},
               std::vector<std::int64_t>{600, 3000, 12000}, kMaxPositions);
  add_prompts(large, std::vector<std::int64_t>{16, 64, 128, 256, 512}, std::vector<std::int64_t>{0, 4000});
  add_decoding(small, std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64}, std::vector<std::int64_t>{600, 3000},
               kMaxPositions);
  add_prompts(small, std::vector<std::int64_t>{16, 64, 128, 256, 512}, std::vector<std::int64_t>{0, 4000});
  return {{large, small}, 7};
}

/// The released geometries, cut to what fits beside little else.
CalibrationPlan cuda_plan(bool quick) {
  constexpr std::int64_t kFlashLayers = 8, kProLayers = 4, kProExperts = 48;
  constexpr std::int64_t kMaxPositions = 150'000;
  CalibrationModel flash{.config = with_layers(preset_config("flash"), kFlashLayers)};
  CalibrationModel pro{.config = with_experts(with_layers(preset_config("pro"), kProLayers), kProExperts)};
  if (quick) {
    add_decoding(flash, std::vector<std::int64_t>{1, 8, 64}, std::vector<std::int64_t>{3000}, kMaxPositions);
    add_prompts(flash, std::vector<std::int64_t>{512, 4096}, std::vector<std::int64_t>{3000});
    return {{flash}, 3};
  }
  add_decoding(flash, std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256},
               std::vector<std::int64_t>{1000, 8000, 32000}, kMaxPositions);
  add_prompts(flash, std::vector<std::int64_t>{512, 2048, 4096, 16384}, std::vector<std::int64_t>{0, 10000});
  add_decoding(pro, std::vector<std::int64_t>{1, 8, 64, 256}, std::vector<std::int64_t>{1000, 8000},
               kMaxPositions);
  add_prompts(pro, std::vector<std::int64_t>{512, 4096, 16384}, std::vector<std::int64_t>{0});
  return {{flash, pro}, 5};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

EngineOptions engine_options(const CalibrationOptions& options, const CalibrationModel& model,
                             int repetitions) {
  EngineOptions engine;
  engine.device = options.device;
  engine.num_threads = options.num_threads;
  engine.max_batch_tokens = 1;
  for (const StepSetting& setting : model.settings) {
    engine.max_batch_tokens = std::max(engine.max_batch_tokens, setting.num_rows());
    engine.max_sequences = std::max(engine.max_sequences, setting.num_sequences);
    // Sequences take whole pages.
    constexpr std::int64_t kSlack = 2 * kPageTokens;
    engine.cache_tokens =
        std::max(engine.cache_tokens,
                 setting.num_sequences * (StepMeter::positions_needed(setting, repetitions) + kSlack));
  }
  return engine;
}

struct Measurements {
  std::map<std::string, std::vector<OperationSample>> samples;
  std::vector<double> host_seconds;
};

void measure_model(const CalibrationOptions& options, const CalibrationModel& model, int repetitions,
                   const DeviceProfile& device, Measurements& into) {
  ThreadPool pool(default_num_threads());
  // On a CPU models must be as large in memory as they pretend to be; other devices have copies of their own.
  const MadeUpBytes bytes = device.is_cpu ? MadeUpBytes::kOfEachTensor : MadeUpBytes::kShared;
  Engine engine(made_up_weights(model.config, 1, pool, bytes), engine_options(options, model, repetitions));
  StepMeter meter(engine, device);
  Progress progress("calibrating", "kinds of steps", std::ssize(model.settings));
  std::int64_t done = 0;
  for (const StepSetting& setting : model.settings) {
    progress.update(done++, fmt::format("{} x {} tokens behind {}", setting.num_sequences, setting.num_tokens,
                                        setting.context));
    StepMeasurement found = meter.measure(setting, repetitions);
    into.host_seconds.push_back(found.host_seconds);
    for (OperationSample& sample : found.samples) into.samples[sample.operation].push_back(std::move(sample));
  }
}

DeviceProfile cpu_ceilings(const CalibrationOptions& options) {
  ThreadPool pool(options.num_threads);
  const MachineLimits limits = measure_machine_limits(pool);
  DeviceProfile profile;
  profile.is_cpu = true;
  profile.description =
      fmt::format("{}, {} threads, {}", processor_name(), options.num_threads, instruction_set_in_use());
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kFp32)] = limits.fma_flops_per_second;
  profile.scalar_ops_per_second = limits.fma_flops_per_second;
  profile.memory_bytes_per_second = limits.read_bytes_per_second;
  profile.num_units = options.num_threads;
  profile.memory_bytes = make_device(options.device, {})->free_bytes();
  return profile;
}

const DeviceProfile& profile_of_gpu(const std::string& driver_name) {
  if (const DeviceProfile* found = find_profile_of_gpu(driver_name)) return *found;
  fail("calibrating: no profile is of a GPU called \"{}\"; put one beside those in src/hardware/profiles/",
       driver_name);
}

DeviceProfile cuda_ceilings(const CalibrationOptions& options) {
  const DeviceCeilings measured = measure_device_ceilings(options.device);
  DeviceProfile profile = profile_of_gpu(measured.name);
  profile.description = fmt::format("{} with this program's kernels", measured.name);
  profile.fuses = true;
  profile.from_data_sheet = false;
  profile.operations.clear();
  profile.memory_bytes_per_second = measured.bytes_per_second;
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kBf16)] = measured.bf16_flops_per_second;
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kFp8)] = measured.fp8_flops_per_second;
  return profile;
}

/// One table for an operation; where it was seen with several numbers of heads, one for each beside.
void add_tables(const std::string& name, const std::vector<OperationSample>& samples,
                DeviceProfile& profile) {
  std::map<double, std::vector<OperationSample>> by_heads;
  for (const OperationSample& sample : samples) by_heads[sample.num_heads].push_back(sample);
  const auto add = [&](const std::string& table, const std::vector<OperationSample>& of_table) {
    OperationEfficiency efficiency = fit_operation(of_table);
    if (!efficiency.points.empty()) profile.operations[table] = std::move(efficiency);
  };
  add(name, samples);
  if (by_heads.size() < 2) return;
  for (const auto& [num_heads, of_heads] : by_heads) add(fmt::format("{}/{:.0f}", name, num_heads), of_heads);
}

/// Of operations that were not measured: what is usual for the others.
void set_fallbacks(DeviceProfile& profile) {
  std::vector<double> compute, memory, launches;
  for (const auto& [name, operation] : profile.operations) {
    for (const EfficiencyPoint& point : operation.points) {
      if (point.compute > 0) compute.push_back(point.compute);
      if (point.memory > 0) memory.push_back(point.memory);
    }
    launches.push_back(operation.points.front().static_seconds);
  }
  if (compute.empty() || memory.empty()) fail("calibrating: no operation was measured");
  profile.efficiency.compute = profile.efficiency.scalar = median(std::move(compute));
  profile.efficiency.memory = median(std::move(memory));
  profile.graph_seconds = profile.eager_seconds = median(std::move(launches));
}

/// No more digits than a measurement has, for people to read.
void round_figures(DeviceProfile& profile) {
  const auto round = [](double& figure) { figure = std::stod(fmt::format("{:.4g}", figure)); };
  const auto round_point = [&](EfficiencyPoint& point) {
    for (double* figure : {&point.compute, &point.memory, &point.scalar, &point.static_seconds})
      round(*figure);
  };
  for (double& peak : profile.peak_flops) round(peak);
  for (double* figure : {&profile.scalar_ops_per_second, &profile.memory_bytes_per_second,
                         &profile.graph_seconds, &profile.eager_seconds, &profile.host_seconds_per_step})
    round(*figure);
  round_point(profile.efficiency);
  for (auto& [name, operation] : profile.operations) std::ranges::for_each(operation.points, round_point);
}

void set_sources(DeviceProfile& profile, const CalibrationOptions& options) {
  const std::string by =
      fmt::format("measured by baleen calibrate on {}, {}", profile.description, options.date);
  for (const char* figure : {"peak_flops", "memory_bytes_per_second", "operations", "host_seconds_per_step"})
    profile.sources[figure] = by;
  for (const char* figure : {"efficiency", "graph_seconds", "eager_seconds"})
    profile.sources[figure] = by + ": medians over operations";
  if (!profile.is_cpu) return;  // the rest is of the profile that this one is made from
  profile.sources["scalar_ops_per_second"] = by + ": multiply-adds from registers, two each";
  profile.sources["memory_bytes"] = "as the system says";
  profile.sources["num_units"] = "threads of the thread pool";
}

}  // namespace

std::string today() { return fmt::format("{:%F}", fmt::gmtime(std::time(nullptr))); }

DeviceProfile calibrate(const CalibrationOptions& given) {
  CalibrationOptions options = given;
  if (options.num_threads == 0) options.num_threads = default_num_threads();
  const bool cpu = device_traits(options.device, options.num_threads).shares_host_memory;
  DeviceProfile profile = cpu ? cpu_ceilings(options) : cuda_ceilings(options);
  profile.name = options.name;
  const CalibrationPlan plan = cpu ? cpu_plan(options.quick) : cuda_plan(options.quick);
  Measurements found;
  for (const CalibrationModel& model : plan.models)
    measure_model(options, model, plan.repetitions, profile, found);
  for (const auto& [name, samples] : found.samples) add_tables(name, samples, profile);
  profile.host_seconds_per_step = median(found.host_seconds);
  set_fallbacks(profile);
  if (cpu && options.measure_further) {
    ThreadPool pool(options.num_threads);
    options.measure_further(profile, pool);
  }
  set_sources(profile, options);
  round_figures(profile);
  return profile;
}

}  // namespace baleen
