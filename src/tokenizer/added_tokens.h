/// Finds added tokens ("<｜User｜>") in raw text: leftmost first, longest at one place, without overlap.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/ragged_batch.h"
#include "tokenizer/tokenizer_json.h"

namespace baleen {

/// A trie over the tokens' bytes, immutable once built. Most text is passed over by its first byte alone; at
/// a byte that may begin a token, a walk of at most the longest token's length decides.
class AddedTokens {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t size = 0;
    TokenId id = 0;
  };

  /// Throws `Error` when a text occurs twice; `name` is what sentences call the file.
  AddedTokens(const std::vector<AddedToken>& tokens, std::string_view name);

  /// The first match at or after `from`.
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from) const;
  /// The token whose text is exactly `text`.
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view text) const;

 private:
  static constexpr std::int32_t kNone = -1;

  /// A node is one byte after its parent's; the children of a node are a list through `sibling`. The lists
  /// are short (real vocabularies differ by digits and a few words), so walking one beats a table of 256.
  struct Node {
    std::uint8_t byte = 0;
    TokenId id = kNone;  ///< token that ends here
    std::int32_t first_child = kNone;
    std::int32_t sibling = kNone;
  };

  [[nodiscard]] std::int32_t child_of(std::int32_t node, std::uint8_t byte) const;
  [[nodiscard]] std::optional<Match> longest_at(std::string_view text, std::size_t begin) const;

  std::vector<Node> nodes_ = {Node{}};  ///< nodes_[0] is the root
  std::array<bool, 256> begins_token_{};
};

}  // namespace baleen
