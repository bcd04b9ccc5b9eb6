#include "device/make_device.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "device/compile_cache.h"
#include "device/cpu_device.h"
#include "device/gpu_driver.h"
#include "device/gpu_module.h"
#include "device/imposed_card.h"
#include "device/module_compilation.h"
#include "ops/operation/variant_choice.h"
#include "ops/operations.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxDevices = 1023;

/// The module of a GPU that can be used, or planned for.
const GpuModule& module_of(const DeviceChoice& device) {
  BALEEN_CHECK(!device.is_cpu());
  const LoadedGpuModule& loaded = gpu_module(*device.architecture);
  if (loaded.module == nullptr) fail("{}: {}", device_name(device), loaded.why_not);
  return *loaded.module;
}

const LoadedGpuModule& module_of(const DeviceTraits& traits) {
  return gpu_module(architecture_by_name(gpu_architectures(), traits.architecture));
}

/// Before the module's first kernel runs on a GPU that it has no machine code for.
void compile_kernels(const DeviceChoice& choice) {
  static std::mutex mutex;
  static std::set<std::pair<std::string_view, ComputeCapability>> compiled;
  const ComputeCapability capability = gpu_driver().gpus[static_cast<std::size_t>(choice.index)].capability;
  if (choice.architecture->has_machine_code(capability)) return;
  const std::lock_guard lock(mutex);
  if (compiled.emplace(choice.architecture->name, capability).second)
    compile_module(gpu_module(*choice.architecture).path, choice.index);
}

/// GPU `index` with the kernels that it gets. Throws `Error` where it cannot be used.
DeviceChoice usable_gpu(int index, const GpuUse& use) {
  const GpuDriver& driver = gpu_driver();
  if (!use.architecture.empty())
    static_cast<void>(architecture_by_name(gpu_architectures(), use.architecture));
  const DeviceProfile* card = use.card.empty() ? nullptr : &card_by_name(use.card);
  if (!driver.why_none.empty()) fail("{}", driver.why_none);
  if (index >= num_gpus()) fail("there are {} GPUs, numbered from 0", num_gpus());
  const DriverGpu& gpu = driver.gpus[static_cast<std::size_t>(index)];
  if (gpu.is_prohibited) {
    fail(
        "{} is here, but its compute mode is prohibited: no program may use it; `sudo nvidia-smi -c DEFAULT`",
        gpu.name);
  }
  std::string_view architecture = use.architecture;
  if (card != nullptr) {
    architecture =
        choose_architecture(gpu_architectures(), card->name, capability_of(*card), architecture).name;
    if (const std::string why = why_not_as_card(gpu, *card); !why.empty()) fail("{}", why);
  }
  const GpuArchitecture& row =
      choose_architecture(gpu_architectures(), gpu.name, gpu.capability, architecture);
  const LoadedGpuModule& loaded = gpu_module(row);
  if (loaded.module == nullptr) fail("{} is here, but {}", gpu.name, loaded.why_not);
  const std::string too_old =
      why_too_old(driver, module_name(row), loaded.module->toolkit(), !row.has_machine_code(gpu.capability));
  if (!too_old.empty()) fail("{} is here, but {}", gpu.name, too_old);
  if (const std::string why = loaded.module->why_not(); !why.empty()) fail("{}", why);
  return {&row, index, card};
}

}  // namespace

std::string why_not_gpu(int index, const GpuUse& use) {
  try {
    static_cast<void>(usable_gpu(index, use));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string why_no_gpu_is_used() { return gpu_driver().seems_to_be_here ? why_not_gpu(0) : ""; }

DeviceChoice device_from_name(std::string_view name, const GpuUse& use) {
  constexpr std::string_view kCudaPrefix = "cuda";
  const bool any = name == "auto" && use.architecture.empty() && use.card.empty();
  if (name == "cpu" && !use.architecture.empty())
    fail("architecture {}: is one of GPUs, and the device is the CPU", shortened_text(use.architecture));
  if (name == "cpu" && !use.card.empty())
    fail("card {}: is imposed on GPUs, and the device is the CPU", shortened_text(use.card));
  if (name == "cpu" || (any && !why_not_gpu(0).empty())) return {};
  int index = 0;
  bool good = name == "auto" || name.starts_with(kCudaPrefix);
  if (good && name != "auto" && name != kCudaPrefix) {
    const std::string_view text = name.substr(kCudaPrefix.size());
    const Result<std::int64_t> number = read_whole(text.substr(1), {0, kMaxDevices});
    good = text.starts_with(':') && number.ok();
    if (good) index = static_cast<int>(number.value());
  }
  if (!good)
    fail("‹device› {}: there are cpu, cuda, cuda:N (the N-th GPU, from 0) and auto", shortened_text(name));
  try {
    return usable_gpu(index, use);
  } catch (const Error& error) {
    fail("‹device› {}: {}", name, error.what());
  }
}

GpuGroup usable_gpus(const GpuUse& use) {
  GpuGroup group;
  for (int index = 0; index < num_gpus(); ++index) {
    if (!why_not_gpu(index, use).empty()) continue;
    const DeviceChoice gpu = usable_gpu(index, use);
    const std::string& name = gpu_driver().gpus[static_cast<std::size_t>(index)].name;
    if (group.gpus.empty()) group.name = name;
    const GpuModule& module = module_of(gpu);
    const bool reaches_all = std::ranges::all_of(group.gpus, [&](const DeviceChoice& other) {
      return module.can_access_memory(index, other.index) && module.can_access_memory(other.index, index);
    });
    if (name == group.name && reaches_all) group.gpus.push_back(gpu);
  }
  return group;
}

std::vector<SeparateGpu> separate_gpus(const GpuUse& use) {
  std::vector<SeparateGpu> separate;
  for (int index = 0; index < num_gpus(); ++index) {
    if (!why_not_gpu(index, use).empty()) continue;
    const DeviceChoice gpu = usable_gpu(index, use);
    if (!separate.empty() && gpu.architecture != separate.front().choice.architecture) continue;
    separate.push_back({gpu, gpu_driver().gpus[static_cast<std::size_t>(index)].name,
                        module_of(gpu).make_device(index, {})->free_bytes()});
  }
  return separate;
}

int num_gpus() { return static_cast<int>(gpu_driver().gpus.size()); }

std::string device_name(const DeviceChoice& device) {
  return device.is_cpu() ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::string start_text(const DeviceChoice& choice) {
  const DriverGpu& gpu = gpu_driver().gpus[static_cast<std::size_t>(choice.index)];
  std::string text = fmt::format("{} (compute capability {}.{}, {:.1f} GB): module {}", gpu.name,
                                 gpu.capability.major, gpu.capability.minor,
                                 1e-9 * static_cast<double>(gpu.memory_bytes), choice.architecture->name);
  if (choice.as_card != nullptr) {
    text += fmt::format(", with the traits of {} (‹GPU weight bytes› imposes its memory)",
                        card_text(*choice.as_card));
  }
  return text;
}

std::string compilation_text(const DeviceChoice& choice) {
  const DriverGpu& gpu = gpu_driver().gpus[static_cast<std::size_t>(choice.index)];
  if (choice.architecture->has_machine_code(gpu.capability)) return "";
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(gpu_module(*choice.architecture).path, error);
  return compilation_text(module_name(*choice.architecture), error ? 0 : static_cast<std::int64_t>(bytes),
                          gpu.capability);
}

DeviceChoice planned_gpu(int index) { return {&gpu_architectures().front(), index}; }

DeviceTraits device_traits(const DeviceChoice& device, int num_threads) {
  if (device.is_cpu()) return cpu_traits(num_threads);
  const GpuArchitecture& row = *device.architecture;
  if (device.as_card != nullptr) return imposed_traits(row, *device.as_card);
  const std::vector<DriverGpu>& gpus = gpu_driver().gpus;
  const auto index = static_cast<std::size_t>(device.index);
  const bool is_here = index < gpus.size() && row.runs_on(gpus[index].capability);
  return is_here ? traits_of(row, gpus[index]) : row.traits;
}

std::string why_not_scratch(const DeviceTraits& traits) {
  return traits.shares_host_memory ? "" : module_of(traits).why_not;
}

std::int64_t scratch_bytes(const DeviceTraits& traits, const StepShape& shape) {
  if (traits.shares_host_memory) return cpu_variants(Operations()).scratch_bytes(shape, traits);
  const GpuModule* module = module_of(traits).module;
  return module == nullptr ? 0 : module->scratch_bytes(shape, traits);
}

std::vector<VariantVerdict> variant_verdicts(const DeviceTraits& traits,
                                             const std::vector<ForcedVariant>& forced,
                                             const OperationSequence& sequence, const void* const* args) {
  if (traits.shares_host_memory)
    return verdicts(VariantChoice(cpu_variants(Operations()), traits, forced), sequence, args);
  const GpuModule* module = module_of(traits).module;
  return module == nullptr ? std::vector<VariantVerdict>() : module->verdicts(traits, forced, sequence, args);
}

DeviceCeilings measure_device_ceilings(const DeviceChoice& choice) {
  if (choice.is_cpu()) fail("device ceilings: only of GPUs; hardware/ measures the CPU's");
  return module_of(choice).measure_ceilings(choice.index);
}

std::shared_ptr<DevicePeers> make_peer_memory(std::span<const DeviceChoice> devices, GpuMessages messages,
                                              std::chrono::milliseconds longest_wait) {
  if (devices.empty() || devices.front().is_cpu()) return nullptr;
  std::vector<int> gpus;
  for (const DeviceChoice& device : devices) gpus.push_back(device.index);
  return module_of(devices.front()).peers_of_threads(gpus, messages, longest_wait);
}

std::shared_ptr<DevicePeers> join_peer_processes(const DeviceChoice& device, std::int64_t rank,
                                                 std::int64_t num_ranks, Communicator& host,
                                                 std::chrono::milliseconds longest_wait) {
  if (device.is_cpu()) return nullptr;
  return module_of(device).peers_of_processes(device.index, rank, num_ranks, host, longest_wait);
}

std::string why_not_nccl(const DeviceChoice& device) {
  const LoadedGpuModule& loaded = gpu_module(*device.architecture);
  return loaded.module == nullptr ? loaded.why_not : loaded.module->why_not_nccl();
}

std::shared_ptr<DevicePeers> join_by_nccl(const DeviceChoice& device, std::int64_t rank,
                                          std::int64_t num_ranks, Communicator& host,
                                          std::chrono::milliseconds longest_wait) {
  return module_of(device).peers_by_nccl(device.index, rank, num_ranks, host, longest_wait);
}

std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceOptions& options) {
  if (!choice.is_cpu()) {
    DeviceOptions gpu = options;
    if (choice.as_card != nullptr) gpu.imposed_traits = imposed_traits(*choice.architecture, *choice.as_card);
    compile_kernels(choice);
    return module_of(choice).make_device(choice.index, gpu);
  }
  auto device =
      std::make_unique<CpuDevice>(options.num_threads, options.scratch_bytes, options.forced_variants);
  device->connect(options.connection.communicator, options.connection.steps);
  return device;
}

}  // namespace baleen
