/// Everything that a run needs to continue as if it had never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainer/adapters/adapters.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/optimiser.h"
#include "trainer/run/run_folder.h"
#include "trainer/run/run_inputs.h"
#include "trainer/run/training_log.h"

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

  Parameters<float> weights;  ///< weights, the adapters merged
  std::optional<Adapters> adapters;
  Optimiser optimiser;
  std::int64_t step = 0;            ///< steps done, skipped ones too; rows [0, step * batch_rows) were read
  std::int64_t skipped_in_row = 0;  ///< steps up to here that were skipped one after the other
  RunInputs inputs;                 ///< what the run reads, of the kinds that whoever fills this uses
  std::optional<LogMark> log;       ///< where its log was when a checkpoint was written; empty: not said
};

/// Writes `folder`, which is not there yet: state.safetensors (weights, adapters beside the
/// weights that they add to, optimiser states that are here) and run.json (position, configuration, inputs,
/// and checksums of all this and of each tensor). It appears whole, on disk when this returns, or not at all.
/// Throws `Error`, also where a value of a tensor is not finite.
void write_run_checkpoint(const std::filesystem::path& folder, const TrainConfig& config, RunState& state);

/// Reads it into `state`, of whatever rank: of the optimiser's states those that `state` has. Throws `Error`
/// where a file is missing, where a bit of either file is not what was written, where a value is not finite,
/// a tensor too many or the position impossible; where `state.inputs` are not those of the checkpoint; and
/// where its configuration differs from `config` in what the weights depend on, with every key that differs.
/// A checkpoint of an earlier version has no checksums: it is read, and a line says so where `says_so`.
void read_run_checkpoint(const std::filesystem::path& folder, const TrainConfig& config, RunState& state,
                         bool says_so = true);

/// The newest checkpoint of `folder`, which has one. Throws `Error` as `read_run_checkpoint`, with the step
/// of the checkpoint before where there is one.
void read_newest_checkpoint(const RunFolder& folder, const TrainConfig& config, RunState& state,
                            bool says_so = true);

}  // namespace baleen
