#include "benchmark/machine_report.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "benchmark/ceilings.h"
#include "benchmark/phase.h"
#include "benchmark/self_check.h"
#include "device/gpu_driver.h"
#include "device/gpu_module.h"
#include "device/imposed_card.h"
#include "device/link_rate.h"
#include "device/make_device.h"
#include "device/pcie_link.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"
#include "hardware/machine_memory.h"
#include "log/log.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "parallel/thread_pool.h"
#include "rank_engine/rank_engine.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

Json host_part(int num_threads) {
  ThreadPool pool(num_threads);
  const MachineLimits limits = measure_machine_limits(pool);
  return {{"processor", processor_name()},
          {"logical_cores", std::thread::hardware_concurrency()},
          {"threads", num_threads},
          {"instruction_sets", available_instruction_sets()},
          {"instruction_set", instruction_set_in_use()},
          {"memory_bytes", total_memory_bytes()},
          {"available_memory_bytes", available_memory_bytes()},
          {"read_bytes_per_second", limits.read_bytes_per_second},
          {"multiply_add_flops_per_second", limits.fma_flops_per_second}};
}

Json link_part(const DriverGpu& gpu) {
  const std::optional<PcieLink> link = pcie_link(gpu.pci_address);
  if (!link) return nullptr;
  return {{"generation", link->generation},
          {"lanes", link->lanes},
          {"most_generation", link->most_generation},
          {"most_lanes", link->most_lanes}};
}

/// What the driver says, whether a GPU is used or not.
Json driver_part() {
  const GpuDriver& driver = gpu_driver();
  Json gpus = Json::array();
  for (const DriverGpu& gpu : driver.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"compute_capability", fmt::format("{}.{}", gpu.capability.major, gpu.capability.minor)},
                    {"memory_bytes", gpu.memory_bytes},
                    {"multiprocessors", gpu.num_units},
                    {"shared_bytes_per_block", gpu.shared_bytes_per_block},
                    {"l2_bytes", gpu.l2_bytes},
                    {"pcie", link_part(gpu)}});
  }
  return {{"release", driver.release},
          {"cuda", driver.cuda_version == 0 ? Json() : Json(cuda_version_text(driver.cuda_version))},
          {"why_no_gpu", driver.why_none.empty() ? Json() : Json(without_paths(driver.why_none))},
          {"gpus", gpus}};
}

/// What the measurements run on.
Json device_part(const EngineOptions& options) {
  const DeviceChoice& device = options.device;
  const DeviceTraits traits = device_traits(device, options.num_threads);
  Json json{{"name", device_name(device)}};
  if (device.is_cpu()) return json;
  const DriverGpu& gpu = gpu_driver().gpus[static_cast<std::size_t>(device.index)];
  json["architecture"] = device.architecture->name;
  json["toolkit"] = gpu_module(*device.architecture).module->toolkit();
  json["machine_code"] = device.architecture->has_machine_code(gpu.capability);
  json["imposed_card"] = device.as_card == nullptr ? Json() : Json(device.as_card->name);
  json["multiprocessors"] = device.as_card == nullptr ? gpu.num_units : traits.num_units;
  json["shared_bytes_per_block"] =
      device.as_card == nullptr ? gpu.shared_bytes_per_block : traits.shared_bytes_per_block;
  json["most_weight_bytes"] = options.gpu_weight_bytes ? Json(*options.gpu_weight_bytes) : Json();
  const DeviceCeilings limits = measure_device_ceilings(device);
  json["copy_bytes_per_second"] = limits.bytes_per_second;
  json["from_host_bytes_per_second"] = measured_link_rate(*make_device(device, {}));
  json["bf16_flops_per_second"] = limits.bf16_flops_per_second;
  json["fp8_flops_per_second"] = limits.fp8_flops_per_second > 0 ? Json(limits.fp8_flops_per_second) : Json();
  json["pcie_under_load"] = link_part(gpu);
  return json;
}

Json self_check_part(const EngineOptions& options) {
  Json models = Json::array();
  for (const SelfCheck& check : self_check(options.device, options.num_threads)) {
    Json checked = Json::array();
    for (const CheckedVariant& one : check.checked) {
      checked.push_back({{"operation", one.operation.empty() ? "all" : one.operation},
                         {"variant", one.variant.empty() ? "as chosen" : one.variant},
                         {"median_error", one.failure.empty() ? Json(one.median_error) : Json()},
                         {"agrees", one.agrees},
                         {"failure", one.failure.empty() ? Json() : Json(without_paths(one.failure))}});
    }
    models.push_back(
        {{"model", check.model}, {"cpu_median_error", check.cpu_median_error}, {"checked", checked}});
  }
  return models;
}

Json benchmark_part(const std::string& name, const EngineBenchmark& load, ModelEngine& engine,
                    const Ceilings& ceilings) {
  const MemoryPlan& plan = engine.plan();
  Json json{{"model", name},
            {"layers", engine.config().num_hidden_layers},
            {"weight_bytes", plan.weight_bytes},
            {"host_experts", plan.experts.num_on_host},
            {"disk_experts", plan.experts.num_on_disk},
            {"phases", Json::array()}};
  for (const Phase& phase : measured_phases(load, engine, 1, load.warm_up))
    json["phases"].push_back(to_json(phase, ceilings));
  return json;
}

}  // namespace

std::string without_paths(std::string_view text) {
  std::string kept;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool begins = at == 0 || std::string_view(" \"'(=`\n").find(text[at - 1]) != std::string_view::npos;
    if (!begins || (text[at] != '/' && text[at] != '~')) {
      kept += text[at++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \"')`,;:\n", at), text.size());
    const std::size_t name = text.rfind('/', end - 1);
    if (name != std::string_view::npos && name >= at) kept += text.substr(name + 1, end - name - 1);
    at = end;
  }
  return kept;
}

Json machine_report(const MachineReportRequest& request) {
  Json report{{"format", "baleen machine report"},
              {"version", kMachineReportVersion},
              {"program", request.program},
              {"host", nullptr},
              {"driver", driver_part()},
              {"device", nullptr},
              {"self_check", nullptr},
              {"benchmarks", Json::array()},
              {"failures", Json::array()}};
  const auto try_part = [&](std::string_view what, const std::function<void()>& part) {
    log_line("report: {}", what);
    try {
      part();
    } catch (const Error& error) {
      report["failures"].push_back(fmt::format("{}: {}", what, without_paths(error.what())));
    }
  };
  EngineOptions options = request.options;
  if (options.num_threads == 0) options.num_threads = default_num_threads();
  try_part("host", [&] { report["host"] = host_part(options.num_threads); });
  try_part("device", [&] { report["device"] = device_part(options); });
  try_part("self-check", [&] { report["self_check"] = self_check_part(options); });
  EngineBenchmark load = request.load;
  load.sequences = {1};
  load.fit(options);
  const auto measure_model = [&](const std::string& name,
                                 const std::function<std::unique_ptr<ModelEngine>()>& open) {
    try_part(name, [&] {
      const std::unique_ptr<ModelEngine> engine = open();
      report["benchmarks"].push_back(benchmark_part(name, load, *engine, measure_ceilings(*engine)));
    });
  };
  measure_model(request.model_name, [&] { return open_engine(request.model, options); });
  measure_model("flash", [&] {
    ThreadPool pool(options.num_threads);
    return open_engine(made_up_weights(with_layers(preset_config("flash"), request.flash_layers), 1, pool),
                       options);
  });
  return report;
}

}  // namespace baleen
