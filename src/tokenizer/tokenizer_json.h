/// `tokenizer.json` as a plain struct: what the file says about a byte-level BPE, checked part by part. Parts
/// of the format that would change ids and that we do not support are refused, never ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Ids above this are taken for damage: a stray number must not size a table. Larger than any vocabulary by
/// far.
inline constexpr TokenId kMaxTokenId = (TokenId{1} << 22) - 1;

/// A token as the file writes it, in the byte-level alphabet.
struct VocabularyEntry {
  std::string text;
  TokenId id = 0;
};

/// One line of the merge list; its place there is its rank. The pair is kept joined, because that is the
/// token made.
struct MergeRule {
  std::string merged;
  std::size_t left_size = 0;  ///< bytes; the rest of `merged` is the right half
};

/// A string matched in the raw text, before anything else looks at it.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;
  /// Matched only where no token with `normalized == false` was.
  bool normalized = false;
};

/// A pattern of the pre-tokenizer. Each match, and each stretch between matches, becomes a piece of its own.
struct SplitRule {
  std::string pattern;
  bool literal = false;  ///< plain text rather than a regular expression
};

struct TokenizerJson {
  std::vector<VocabularyEntry> vocabulary;
  std::vector<MergeRule> merges;
  std::vector<AddedToken> added_tokens;
  std::vector<SplitRule> splits;  ///< applied in order: each one cuts the pieces of the one before
};

/// Throws `Error`: not JSON, a part missing or of the wrong type, or a feature that is not supported. `name`
/// is what sentences call the file. Ids are in [0, kMaxTokenId]; whether they are distinct is for the caller
/// to see. `post_processor`, `truncation` and `padding` are not read: encoding here adds no tokens and cuts
/// none.
TokenizerJson read_tokenizer_json(std::string_view json, std::string_view name);

}  // namespace baleen
