/// Options that every command which runs a model shares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/expert_flags.h"
#include "app/machine_plan.h"
#include "app/prompt_profile_flag.h"
#include "engine/engine_options.h"

namespace baleen {

class Options;

/// The bundled model's.
[[nodiscard]] std::string default_model_folder();

/// Adds `--model`, with the bundled model as default.
void add_model_option(Options& command, std::string& model);

/// Adds `--engram`.
void add_engram_option(Options& command, EngramWish& engram);
/// Adds `--bounded-replay`.
void add_bounded_replay_option(Options& command, std::int64_t& tokens);

struct EngineFlags {
  std::string model;
  std::string precision = "released";
  GpuMessages messages = GpuMessages::kAutomatic;
  std::string device = "auto";
  std::string architecture;          ///< whose kernels GPUs get; empty: the best that run on them
  std::string card;                  ///< whose traits are imposed on GPUs; empty: they have their own
  std::string devices;               ///< GPUs of ranks, as "0,1"; empty: --device
  std::vector<std::string> kernels;  ///< forced variants, as parse_forced_variant reads them
  std::string instruction_set = "best";
  int threads = 0;
  std::int64_t chunk = 512;
  std::int64_t context = 0;
  std::int64_t gpu_weight_bytes = 0;   ///< 0: what is free
  std::int64_t host_expert_bytes = 0;  ///< 0: what they need
  bool no_fetch_ahead = false;
  HostExpertsMode host_experts = HostExpertsMode::kAuto;
  EngramWish engram = EngramWish::kAuto;
  std::int64_t bounded_replay = 0;  ///< tokens of a prompt; 0: its decoder half is computed on all
  ParallelPlan parallel;            ///< zeros: one rank
  BatchOverlap overlap;             ///< when a plan with two micro-batches cuts its steps
  ExpertFlags experts;
  PromptProfileFlag prompts;

  void add_to(Options& command);
  /// For commands whose scheduler cuts prompts.
  void add_all_but_chunk_to(Options& command);
  /// For commands that make prompts of messages.
  void add_prompt_profile_to(Options& command);
  /// One sequence. Also limits the instruction set, so call it before anything computes. Where no option
  /// names a device, ranks are placed on the GPUs of this machine, and a line of the log says how and why.
  /// Throws `Error`, also where --model is no folder.
  [[nodiscard]] EngineOptions options(const EnginePurpose& purpose = {}) const;
  /// The same for weights that do not come from --model.
  [[nodiscard]] EngineOptions options_of(const SimulatedModel& model, const EnginePurpose& purpose) const;

 private:
  [[nodiscard]] EngineOptions options_without_plan() const;
  [[nodiscard]] GpuUse gpu_use() const { return {architecture, card}; }
  /// Whether `auto` means the CPU: the precision or a forced variant is one that the CPU alone has.
  [[nodiscard]] bool cpu_only() const;
  template <class LoadModel>
  [[nodiscard]] EngineOptions with_plan(const EnginePurpose& purpose, const LoadModel& load) const;
};

}  // namespace baleen
