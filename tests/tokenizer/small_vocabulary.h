/// A tokenizer.json made on the spot: the 256 bytes as ids 0 to 255, and a token for every merge after them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace baleen {

/// Raw bytes of the two tokens that merge.
using BytePair = std::pair<std::string, std::string>;

/// Merge i makes token 256 + i, unless an earlier merge made the same bytes. Byte-level pre-tokenizer without
/// splits; no added tokens. The caller may change anything before dumping it.
nlohmann::json small_vocabulary(const std::vector<BytePair>& merges);

/// An entry of "added_tokens".
nlohmann::json added_token(std::int32_t id, const std::string& content, bool special, bool normalized);

/// A Split step of "pre_tokenizer".
nlohmann::json split(const std::string& kind, const std::string& pattern);

}  // namespace baleen
