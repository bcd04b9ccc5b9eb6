/// The tokens: which id a text of the file has, and which bytes every id stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensor/ragged_batch.h"
#include "tokenizer/tokenizer_json.h"

namespace baleen {

/// Texts of the model's vocabulary as the file writes them, with their ids. Needed while loading, and views
/// into the entries it was made from.
using TokenIndex = std::unordered_map<std::string_view, TokenId>;

/// Throws `Error` when a text occurs twice, or is an added token with another id. `name` is what sentences
/// call the file.
TokenIndex index_tokens(const std::vector<VocabularyEntry>& entries, const std::vector<AddedToken>& added,
                        std::string_view name);

/// Immutable once built. One string holds all bytes; ids index where each begins.
class Vocabulary {
 public:
  /// Entries stand for the bytes that the byte-level alphabet gives, or for their own text where a character
  /// is outside it (the decoder of the format does the same, for added tokens too). Throws `Error` when two
  /// different tokens share an id; `name` is what sentences call the file.
  Vocabulary(const std::vector<VocabularyEntry>& entries, const std::vector<AddedToken>& added,
             std::string_view name);

  /// Highest id + 1. Some ids below may have no token.
  [[nodiscard]] TokenId size() const { return static_cast<TokenId>(begin_.size()) - 1; }
  /// Empty for an id without a token, whatever the id. The view lives as long as the vocabulary.
  [[nodiscard]] std::string_view bytes_of(TokenId id) const {
    if (id < 0 || id >= size()) return {};
    return std::string_view(bytes_).substr(begin_[id], begin_[id + 1] - begin_[id]);
  }
  /// Marked "special" in the file.
  [[nodiscard]] bool is_special(TokenId id) const { return id >= 0 && id < size() && special_[id]; }

 private:
  std::string bytes_;
  std::vector<std::size_t> begin_;  ///< [size + 1]
  std::vector<bool> special_;       ///< [size]
};

}  // namespace baleen
