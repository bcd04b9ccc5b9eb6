/// A report of a machine: what its owner sends to confirm what runs there. It names hardware, driver and
/// program, and what was measured; no host, user, path, address, serial number or environment.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "benchmark/engine_benchmark.h"
#include "engine/engine_options.h"

namespace baleen {

/// Of the format (docs/app.md). Raised by one when a field changes its meaning or goes.
inline constexpr int kMachineReportVersion = 1;

struct MachineReportRequest {
  nlohmann::ordered_json program;  ///< what the program says of itself
  EngineOptions options;           ///< device, threads, and limits of memory
  std::string model;               ///< folder or file of the model that is measured
  std::string model_name;          ///< as the report calls it
  /// Flash's first: two with a window alone, one that selects, one of ratio 128.
  std::int64_t flash_layers = 4;
  EngineBenchmark load;  ///< prompt and decode
};

/// Takes a minute or so. What fails is a sentence in "failures", without paths, and the rest goes on.
[[nodiscard]] nlohmann::ordered_json machine_report(const MachineReportRequest& request);

/// `text` with what looks like a path of a file taken out: "baleen_sm80.so" of "/home/me/baleen_sm80.so".
[[nodiscard]] std::string without_paths(std::string_view text);

}  // namespace baleen
