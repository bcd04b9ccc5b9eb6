/// Options that every command which runs a model shares.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/memory_plan.h"

namespace baleen {

/// The bundled model's.
[[nodiscard]] std::string default_model_folder();

/// Adds `--model`, with the bundled model as default.
void add_model_option(CLI::App& command, std::string& model);

struct EngineFlags {
  std::string model;
  std::string precision = "released";
  std::string device = "auto";
  std::string kernels = "best";
  std::string instruction_set = "best";
  int threads = 0;
  std::int64_t chunk = 512;
  std::int64_t context = 0;

  void add_to(CLI::App& command);
  /// One sequence. Also limits the instruction set, so call it before anything computes. Throws `Error`, also where --model
  /// is no folder.
  [[nodiscard]] EngineOptions options() const;
  /// The same for weights that do not come from --model.
  [[nodiscard]] EngineOptions options_without_model() const;
};

}  // namespace baleen
