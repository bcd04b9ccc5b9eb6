/// Rules for the folder that a command writes a checkpoint to, and for the files that travel beside the
/// weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writer.h"

namespace baleen {

/// Throws `Error` when `folder` is a file, or holds anything and `force` is not set.
void check_output_folder(const std::filesystem::path& folder, bool force);

/// The text files beside the weights: tokenizer, generation settings, licence. Neither config.json nor the
/// index, and no README, which describes the original. Throws `Error` when one cannot be read.
[[nodiscard]] std::vector<TextFile> companion_files(const std::filesystem::path& folder);

/// tokenizer.json and tokenizer_config.json of `folder`; the latter may be absent. Throws `Error` without the
/// former.
[[nodiscard]] std::vector<TextFile> tokenizer_files(const std::filesystem::path& folder);

}  // namespace baleen
