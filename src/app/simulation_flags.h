/// Options that the commands of the simulator share: which model, which device, spread how. Names as in
/// this program, and those of TensorCast as aliases.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/machine_flags.h"
#include "model/checkpoint_kind.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {

class Option;
class Options;

inline constexpr double kSecondsPerMillisecond = 1e-3;

/// A known geometry or a folder with a checkpoint, or with a config.json alone.
struct SimulatedModelFlags {
  std::string model = "flash";
  std::optional<std::int64_t> num_layers;

  void add_to(Options& command);
  /// Of a folder with tensors they are compared with its config, as where the model is run. `kind`: what
  /// those tensors are, left alone where there are none. Throws `Error`.
  [[nodiscard]] SimulatedModel load(std::optional<CheckpointKind>* kind = nullptr) const;
};

/// `--tokens-a-step`: that instead of the share of each draft that is accepted.
Option add_tokens_a_step_option(Options& command, std::optional<double>& tokens);

/// `--acceptance`: that, as it is published (`acceptance_of_published`).
Option add_published_acceptance_option(Options& command, std::vector<double>& shares);

struct DeviceFlags {
  SimulatedModelFlags model;
  EngramWish engram = EngramWish::kAuto;
  std::string device = "h200";
  double reserved_gb = 0;
  std::int64_t gpu_weight_bytes = 0;   ///< 0: what is free
  std::int64_t host_expert_bytes = 0;  ///< 0: what they need
  MachineFlags machine;

  void add_to(Options& command);
  /// The model, with its tables of n-grams where `--engram` wants them. Throws `Error`.
  [[nodiscard]] SimulatedModel load_model() const;
  /// Throws `Error`.
  [[nodiscard]] DeviceProfile load_device() const;
  /// `profile` with what the other options say of it. Throws `Error`.
  [[nodiscard]] DeviceProfile configured(DeviceProfile profile) const;
};

struct DeploymentFlags : DeviceFlags {
  ParallelPlan plan;

  void add_to(Options& command);
  /// Resolved; throws `Error` with every rule it breaks.
  [[nodiscard]] ParallelPlan legal_plan(const ModelConfig& config, const DeviceProfile& profile) const;
};

}  // namespace baleen
