/// Reads the bulk of `tokenizer.json` as it streams by. Vocabulary and merges are nine tenths of the file,
/// and as a tree of JSON values they cost more time and memory than the finished tokenizer; the rest is small
/// and irregular, and comfortable as a tree.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace baleen {

struct TokenizerJsonParts {
  std::vector<VocabularyEntry> vocabulary;
  std::vector<MergeRule> merges;
  /// Everything else. `model.vocab` and `model.merges` are present but empty where they were of the right
  /// type.
  nlohmann::json rest;
};

/// Throws `Error` when `json` is not JSON, or when an entry of the vocabulary or the merges has a wrong type.
TokenizerJsonParts parse_tokenizer_json(std::string_view json, std::string_view name);

}  // namespace baleen
