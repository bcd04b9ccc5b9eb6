#include "generation/sequence_breakers.h"

#include <algorithm>
#include <string_view>

namespace baleen {
namespace {

/// Adds what `token`, of these bytes, has of the breaker `text`.
void add_overlaps(const Tokenizer& tokenizer, TokenId token, std::string_view bytes, std::string_view text,
                  SequenceBreakers& breakers) {
  for (std::size_t at = bytes.find(text.front()); at != std::string_view::npos;
       at = bytes.find(text.front(), at + 1)) {
    const std::string_view here = bytes.substr(at, text.size());
    if (!text.starts_with(here)) continue;
    const Result<std::vector<TokenId>> rest = tokenizer.encode(text.substr(here.size()));
    if (!rest) continue;  // the token ends within a character
    std::vector<std::vector<TokenId>>& known = breakers[token];
    if (std::ranges::find(known, rest.value()) == known.end()) known.push_back(rest.value());
  }
}

}  // namespace

const std::vector<std::string>& default_sequence_breakers() {
  static const std::vector<std::string> kDefault = {"\n", ":", "\"", "*"};
  return kDefault;
}

std::shared_ptr<const SequenceBreakers> sequence_breakers(const Tokenizer& tokenizer,
                                                          std::span<const std::string> texts) {
  auto breakers = std::make_shared<SequenceBreakers>();
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string_view bytes = tokenizer.bytes_of(token);
    for (const std::string& text : texts) {
      if (!text.empty()) add_overlaps(tokenizer, token, bytes, text, *breakers);
    }
  }
  return breakers;
}

}  // namespace baleen
