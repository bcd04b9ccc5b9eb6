/// Options that every command which runs a model shares.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/memory_plan.h"

namespace baleen {

/// models/stories of the current folder or, failing that, of the checkout that the program was built in.
[[nodiscard]] std::string default_model_folder();

/// `path` in the current folder or, failing that, in the checkout that the program was built in; `path` itself where it is
/// in neither.
[[nodiscard]] std::string checkout_path(const std::string& path);

/// Adds `--model`, with the bundled model as default.
void add_model_option(CLI::App& command, std::string& model);

struct EngineFlags {
  std::string model;
  std::string precision = "released";
  std::string device = "auto";
  std::vector<std::string> kernels;  ///< forced variants, as parse_forced_variant reads them
  std::string instruction_set = "best";
  int threads = 0;
  std::int64_t chunk = 512;
  std::int64_t context = 0;

  void add_to(CLI::App& command);
  /// One sequence. Also limits the instruction set, so call it before anything computes. Throws `Error`.
  [[nodiscard]] EngineOptions options() const;
};

}  // namespace baleen
