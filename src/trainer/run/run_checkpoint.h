/// Everything that a run needs to continue as if it had never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainer/adapters/adapters.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/optimiser.h"

namespace baleen {

/// There is no state of random numbers: data and first weights are functions of seed and position.
struct RunState {
  /// Of one rank, whose optimiser has the states of its own tensors.
  explicit RunState(const TrainConfig& config, std::int64_t rank = 0, std::int64_t num_ranks = 1)
      : weights(training_table(config.model, config.ablation.plain_residual)),
        adapters(config.lora.rank > 0 ? std::make_optional<Adapters>(config) : std::nullopt),
        optimiser(config, trained(), rank, num_ranks) {}

  /// What the optimiser updates: all weights, or the factors of the adapters.
  [[nodiscard]] Parameters<float>& trained() { return adapters ? adapters->factors() : weights; }

  Parameters<float> weights;  ///< with the adapters merged
  std::optional<Adapters> adapters;
  Optimiser optimiser;
  std::int64_t step = 0;            ///< steps done, skipped ones too; rows [0, step * batch_rows) were read
  std::int64_t skipped_in_row = 0;  ///< steps up to here that were skipped one after the other
};

/// Writes `folder`, which is not there yet: state.safetensors (weights, adapters beside the
/// weights that they add to, optimiser states that are here) and run.json
/// (position, configuration). It appears whole, on disk when this returns, or not at all. Throws `Error`.
void write_run_checkpoint(const std::filesystem::path& folder, const TrainConfig& config, RunState& state);

/// Reads it into `state`, of whatever rank: of the optimiser's states those that `state` has. Throws `Error`
/// where a file is missing or damaged, and where the checkpoint's configuration differs from `config` in what
/// the weights depend on, with every key that differs.
void read_run_checkpoint(const std::filesystem::path& folder, const TrainConfig& config, RunState& state);

}  // namespace baleen
