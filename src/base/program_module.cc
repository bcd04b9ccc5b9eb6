#include "base/program_module.h"

#include <dlfcn.h>

#include <filesystem>

namespace baleen {
namespace {

std::string reason_of_loader() {
  const char* why = ::dlerror();
  return why == nullptr ? "no reason given" : why;
}

}  // namespace

ProgramModule load_program_module(const std::string& name, int flags) {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::filesystem::path path = folder / name;
  const std::filesystem::path installed = folder.parent_path() / "lib" / "baleen" / name;
  if (!std::filesystem::exists(path) && std::filesystem::exists(installed)) path = installed;
  ProgramModule module{.path = path.string(), .exists = std::filesystem::exists(path)};
  module.handle = ::dlopen(module.exists ? path.c_str() : name.c_str(), flags | RTLD_NODELETE);
  if (module.handle == nullptr) module.why_not = reason_of_loader();
  return module;
}

}  // namespace baleen
