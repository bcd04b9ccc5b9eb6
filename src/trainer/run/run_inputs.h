/// What a run reads beside its own state, by checksum: a resumed run must meet the same.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// By kind ("data", "tokenizer", "tables", "prompts", "models") and name, XXH3-128 as text.
using RunInputs = std::map<std::string, std::map<std::string, std::string>>;

/// What an export needs too: the tokenizer's files beside the data, and the tables that route by token id
/// where they are a checkpoint's.
[[nodiscard]] RunInputs exported_inputs(const TrainConfig& config);

/// Of names and values.
[[nodiscard]] std::string weights_checksum(const Parameters<float>& weights);

/// Throws `Error` with all that is missing or changed, of the kinds that `now` has; `folder` names the
/// checkpoint that was written with `before`.
void check_inputs(const RunInputs& before, const RunInputs& now, const std::filesystem::path& folder);

}  // namespace baleen
