#include "app/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "app/provenance.h"
#include "device/gpu_module.h"

// Facts of the build that only CMake knows are passed to this file by src/app/CMakeLists.txt.

namespace baleen {
namespace {

/// The parts of a text between commas.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// Name and version of each library.
std::vector<std::pair<std::string, std::string>> libraries() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& part : parts_of(BALEEN_LIBRARIES)) {
    const std::size_t equals = part.find('=');
    found.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return found;
}

/// The modules of kernels that this program finds, all made by one toolkit.
struct GpuModules {
  std::vector<std::string_view> architectures;
  std::string toolkit;
};

GpuModules gpu_modules() {
  GpuModules found;
  for (const GpuArchitecture& row : gpu_architectures()) {
    const GpuModule* module = gpu_module(row).module;
    if (module == nullptr) continue;
    found.architectures.push_back(row.name);
    found.toolkit = module->toolkit();
  }
  return found;
}

std::string text_for_people() {
  const GpuModules modules = gpu_modules();
  const std::string cuda =
      modules.architectures.empty()
          ? "no module of kernels is here"
          : fmt::format("{}, toolkit {}", fmt::join(modules.architectures, ", "), modules.toolkit);
  std::vector<std::string> names;
  for (const auto& [name, version] : libraries()) names.push_back(name + " " + version);
  return fmt::format(
      "baleen {}\nrevision   {}\ncompiler   {}, {}, {}\nCUDA       {}\nlibraries  {}\n"
      "licence    Apache-2.0; `baleen notices` prints those of the libraries",
      BALEEN_VERSION, program_revision(), BALEEN_COMPILER, BALEEN_BUILD_TYPE, BALEEN_PROCESSOR, cuda,
      fmt::join(names, ", "));
}

std::string text_as_json() {
  nlohmann::ordered_json cuda;  // null without modules
  if (const GpuModules modules = gpu_modules(); !modules.architectures.empty())
    cuda = {{"architectures", modules.architectures}, {"toolkit", modules.toolkit}};
  nlohmann::ordered_json versions = nlohmann::ordered_json::object();
  for (const auto& [name, version] : libraries()) versions[name] = version;
  const nlohmann::ordered_json all = {{"version", BALEEN_VERSION},     {"revision", program_revision()},
                                      {"compiler", BALEEN_COMPILER},   {"build_type", BALEEN_BUILD_TYPE},
                                      {"processor", BALEEN_PROCESSOR}, {"cuda", cuda},
                                      {"libraries", versions},         {"licence", "Apache-2.0"}};
  return all.dump();
}

}  // namespace

std::string program_version() { return BALEEN_VERSION; }

nlohmann::ordered_json program_facts() {
  return {{"version", BALEEN_VERSION},
          {"revision", program_revision()},
          {"sources", gpu_module_sources()},
          {"compiler", BALEEN_COMPILER},
          {"build_type", BALEEN_BUILD_TYPE}};
}

std::string version_text(bool as_json) { return as_json ? text_as_json() : text_for_people(); }

}  // namespace baleen
