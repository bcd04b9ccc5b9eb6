#include "tokenizer_training/trained_tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_level.h"

namespace baleen {
namespace {

std::string byte_level_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += byte_level_character(static_cast<std::uint8_t>(byte));
  return text;
}

}  // namespace

TokenizerJson trained_tokenizer(const TrainedMerges& merges, SpecialTokenSet set) {
  TokenizerJson tokenizer{.splits = v4_split_rules()};
  std::vector<AddedToken> special = v4_special_tokens(set);
  std::vector<std::string> texts;
  texts.reserve(merges.tokens.size());
  for (const std::string& token : merges.tokens) texts.push_back(byte_level_text(token));
  TokenId next = 0;
  for (std::size_t i = 0; i < special.size(); ++i) {
    if (i == kNumLeadingTokens)
      for (const std::string& text : texts) tokenizer.vocabulary.push_back({text, next++});
    if (i < kNumLeadingTokens) tokenizer.vocabulary.push_back({special[i].text, next});
    special[i].id = next++;
  }
  tokenizer.added_tokens = std::move(special);
  for (const TrainedMerges::Rule& rule : merges.rules) {
    const std::string &left = texts[static_cast<std::size_t>(rule.left)],
                      &right = texts[static_cast<std::size_t>(rule.right)];
    tokenizer.merges.push_back({left + right, left.size()});
  }
  return tokenizer;
}

}  // namespace baleen
