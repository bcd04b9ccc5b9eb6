/// The packed corpus of a run, fit for its model.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "model/config.h"
#include "trainer/ranks/training_ranks.h"
#include "training_data/token_shards.h"

namespace baleen {

/// A split of `folder` whose every byte matches its checksum: each rank reads its part of the shards. Throws
/// `Error` where it cannot be read, is damaged, or was packed with a larger vocabulary than the model's. Says
/// so where the folder has no list of its files.
[[nodiscard]] TokenShards open_training_data(const std::filesystem::path& folder, DataSplit split,
                                             const ModelConfig& model, const TrainingRanks& ranks = {});

/// For `RunInputs`; `held_out` may be null.
[[nodiscard]] std::map<std::string, std::string> data_checksums(const TokenShards& training,
                                                                const TokenShards* held_out);

}  // namespace baleen
