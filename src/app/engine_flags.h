/// Options that every command which runs a model shares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/expert_flags.h"
#include "engine/memory_plan.h"

namespace baleen {

class Options;

/// The bundled model's.
[[nodiscard]] std::string default_model_folder();

/// Adds `--model`, with the bundled model as default.
void add_model_option(Options& command, std::string& model);

struct EngineFlags {
  std::string model;
  std::string precision = "released";
  std::string device = "auto";
  std::string devices;               ///< GPUs of ranks, as "0,1"; empty: --device
  std::vector<std::string> kernels;  ///< forced variants, as parse_forced_variant reads them
  std::string instruction_set = "best";
  int threads = 0;
  std::int64_t chunk = 512;
  std::int64_t context = 0;
  std::int64_t gpu_weight_bytes = 0;   ///< 0: what is free
  std::int64_t host_expert_bytes = 0;  ///< 0: what they need
  ParallelPlan parallel;               ///< zeros: one rank
  ExpertFlags experts;

  void add_to(Options& command);
  /// For commands whose scheduler cuts prompts.
  void add_all_but_chunk_to(Options& command);
  /// One sequence. Also limits the instruction set, so call it before anything computes. Throws `Error`, also where --model
  /// is no folder.
  [[nodiscard]] EngineOptions options() const;
  /// The same for weights that do not come from --model.
  [[nodiscard]] EngineOptions options_without_model() const;
};

}  // namespace baleen
