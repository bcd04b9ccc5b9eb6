#include "device/gpu_module.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "base/program_module.h"

namespace baleen {
namespace {

constexpr std::string_view kBuild = "scripts/build.sh release gpu_modules";

template <class Function>
Function exported(const ProgramModule& module, const char* name) {
  return reinterpret_cast<Function>(::dlsym(module.handle, name));
}

LoadedGpuModule load(const GpuArchitecture& row) {
  const ProgramModule module = load_program_module(module_name(row), RTLD_NOW | RTLD_LOCAL);
  if (module.handle == nullptr && !module.exists) {
    return {.why_not =
                fmt::format("{}, the kernels for {}, is not there; where nvcc 12.3 or later is, {} builds it",
                            module.path, row.gpus, kBuild)};
  }
  if (module.handle == nullptr)
    return {.why_not = fmt::format("{} cannot be loaded ({}); {} builds it again", module.path,
                                   module.why_not, kBuild)};
  const auto sources = exported<GpuModuleSources>(module, kGpuModuleSources);
  const auto open = exported<OpenGpuModule>(module, kOpenGpuModule);
  if (sources == nullptr || open == nullptr || std::string_view(sources()) != gpu_module_sources()) {
    return {.why_not = fmt::format("{} was built from other sources than this program; {} builds it again",
                                   module.path, kBuild)};
  }
  return {.module = open(), .why_not = {}, .path = module.path};
}

}  // namespace

std::string module_name(const GpuArchitecture& row) { return fmt::format("baleen_{}.so", row.name); }

const LoadedGpuModule& gpu_module(const GpuArchitecture& row) {
  static std::mutex mutex;
  static std::map<std::string_view, LoadedGpuModule> loaded;
  const std::lock_guard lock(mutex);
  if (const auto found = loaded.find(row.name); found != loaded.end()) return found->second;
  return loaded.emplace(row.name, load(row)).first->second;
}

}  // namespace baleen
