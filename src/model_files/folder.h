/// The files that travel beside the weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writer.h"

namespace baleen {

/// The text files beside the weights of a folder: tokenizer, generation settings, licence, the encoder by
/// which the prompt profile is known (model/found_prompt_profile.h). Neither config.json nor the index, and
/// no README, which describes the original. Of a GGUF model the same out of its keys: tokenizer and chat
/// template. Throws `Error` when one cannot be read.
[[nodiscard]] std::vector<TextFile> companion_files(const std::filesystem::path& folder);

[[nodiscard]] std::vector<std::string> names_of(const std::vector<TextFile>& files);

/// tokenizer.json and tokenizer_config.json of `folder`; the latter may be absent. Throws `Error` without the
/// former.
[[nodiscard]] std::vector<TextFile> tokenizer_files(const std::filesystem::path& folder);

}  // namespace baleen
