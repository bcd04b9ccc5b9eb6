/// The packed corpus of a run, fit for its model.
#pragma once

#include <filesystem>

#include "model/config.h"
#include "training_data/token_shards.h"

namespace baleen {

/// The split for training of `folder`. Throws `Error` where it cannot be read, or was packed with a larger
/// vocabulary than the model's.
[[nodiscard]] TokenShards open_training_data(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace baleen
