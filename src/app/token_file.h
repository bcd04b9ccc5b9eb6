/// Token ids as text: numbers separated by spaces, commas or newlines.
#pragma once

#include <filesystem>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Throws `Error`, naming place and text, for anything that is not a number; also when there is none.
[[nodiscard]] std::vector<TokenId> read_token_file(const std::filesystem::path& path);

}  // namespace baleen
