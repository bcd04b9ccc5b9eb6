#include "tokenizer/added_tokens.h"

#include "base/error.h"
#include "base/quoted_text.h"

namespace baleen {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, std::string_view name) {
  for (const AddedToken& token : tokens) {
    begins_token_[static_cast<std::uint8_t>(token.text[0])] = true;
    std::int32_t node = 0;
    for (const char c : token.text) {
      const auto byte = static_cast<std::uint8_t>(c);
      std::int32_t child = child_of(node, byte);
      if (child == kNone) {
        child = static_cast<std::int32_t>(nodes_.size());
        nodes_.push_back({byte, kNone, kNone, nodes_[node].first_child});
        nodes_[node].first_child = child;
      }
      node = child;
    }
    if (nodes_[node].id != kNone) {
      fail("{}: added_tokens lists {} twice, as {} and {}", name, quoted_text(token.text), nodes_[node].id,
           token.id);
    }
    nodes_[node].id = token.id;
  }
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_token_[static_cast<std::uint8_t>(text[begin])]) continue;
    if (const auto match = longest_at(text, begin)) return match;
  }
  return std::nullopt;
}

std::optional<TokenId> AddedTokens::id_of(std::string_view text) const {
  const auto match = longest_at(text, 0);
  if (!match || match->size != text.size()) return std::nullopt;
  return match->id;
}

std::int32_t AddedTokens::child_of(std::int32_t node, std::uint8_t byte) const {
  std::int32_t child = nodes_[node].first_child;
  while (child != kNone && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

std::optional<AddedTokens::Match> AddedTokens::longest_at(std::string_view text, std::size_t begin) const {
  std::optional<Match> longest;
  std::int32_t node = 0;
  for (std::size_t end = begin; end < text.size(); ++end) {
    node = child_of(node, static_cast<std::uint8_t>(text[end]));
    if (node == kNone) break;
    if (nodes_[node].id != kNone) longest = Match{begin, end + 1 - begin, nodes_[node].id};
  }
  return longest;
}

}  // namespace baleen
