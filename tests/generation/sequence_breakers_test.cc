#include "generation/sequence_breakers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace baleen {
namespace {

using Rests = std::vector<std::vector<TokenId>>;

TEST(SequenceBreakers, BeginInEveryTokenThatHoldsOneOrEndsWithItsBeginning) {
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  const std::vector<std::string> texts = {"\n", "the end"};
  const auto breakers = sequence_breakers(tokenizer, texts);
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string_view bytes = tokenizer.bytes_of(token);
    Rests want;
    for (const std::string& text : texts) {
      for (std::size_t size = 1; size <= text.size(); ++size) {
        const bool here = size == text.size() ? bytes.find(text) != std::string_view::npos
                                              : bytes.ends_with(text.substr(0, size));
        if (!here) continue;
        const std::vector<TokenId> rest = tokenizer.encode(text.substr(size)).value();
        if (std::ranges::find(want, rest) == want.end()) want.push_back(rest);
      }
    }
    const auto found = breakers->find(token);
    Rests got = found == breakers->end() ? Rests() : found->second;
    std::ranges::sort(got);
    std::ranges::sort(want);
    EXPECT_EQ(got, want) << bytes;
  }
  EXPECT_TRUE(sequence_breakers(tokenizer, {})->empty());
}

TEST(SequenceBreakers, DefaultsAreThoseOfLlamaCpp) {
  EXPECT_EQ(default_sequence_breakers(), (std::vector<std::string>{"\n", ":", "\"", "*"}));
}

}  // namespace
}  // namespace baleen
