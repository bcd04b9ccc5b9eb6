#include "app/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "app/provenance.h"

// Facts of the build that only CMake knows; src/app/CMakeLists.txt passes them to this file.
#ifndef BALEEN_CUDA_ARCHITECTURES
#define BALEEN_CUDA_ARCHITECTURES ""
#define BALEEN_CUDA_TOOLKIT ""
#endif

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

std::string text_for_people() {
  const std::vector<std::string> architectures = parts_of(BALEEN_CUDA_ARCHITECTURES);
  const std::string cuda =
      architectures.empty()
          ? "without CUDA"
          : fmt::format("{}, toolkit {}", fmt::join(architectures, ", "), BALEEN_CUDA_TOOLKIT);
  std::vector<std::string> names;
  for (const auto& [name, version] : libraries()) names.push_back(name + " " + version);
  return fmt::format(
      "baleen {}\nrevision   {}\ncompiler   {}, {}, {}\nCUDA       {}\nlibraries  {}\n"
      "licence    Apache-2.0; `baleen notices` prints those of the libraries",
      BALEEN_VERSION, program_revision(), BALEEN_COMPILER, BALEEN_BUILD_TYPE, BALEEN_PROCESSOR, cuda,
      fmt::join(names, ", "));
}

std::string text_as_json() {
  nlohmann::ordered_json cuda;  // null without CUDA
  if (const auto architectures = parts_of(BALEEN_CUDA_ARCHITECTURES); !architectures.empty())
    cuda = {{"architectures", architectures}, {"toolkit", BALEEN_CUDA_TOOLKIT}};
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

std::string version_text(bool as_json) { return as_json ? text_as_json() : text_for_people(); }

}  // namespace baleen
