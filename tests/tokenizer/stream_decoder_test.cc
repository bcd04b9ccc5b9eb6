#include "tokenizer/stream_decoder.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/utf8.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace baleen {
namespace {

const Tokenizer& bytes_only() {
  static const Tokenizer tokenizer = Tokenizer::parse(small_vocabulary({}).dump(), "test");
  return tokenizer;
}

TEST(StreamDecoder, WaitsForWholeCharacters) {
  StreamDecoder decoder(bytes_only());
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\U0001F600");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ReplacesWhatCanNoLongerBecomeACharacter) {
  StreamDecoder decoder(bytes_only());
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push('a'), "\uFFFDa");
  EXPECT_EQ(decoder.push(0x80), "\uFFFD");
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push(0x82), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "") << "as new";
  EXPECT_EQ(decoder.push('b'), "b");
}

TEST(StreamDecoder, StreamingEqualsDecodingAtOnce) {
  const Tokenizer stories = Tokenizer::load("models/stories");
  // Bytes of UTF-8 in any order, and tokens of a real vocabulary, of which many end inside a character.
  for (const Tokenizer* tokenizer : {&bytes_only(), &stories}) {
    EXPECT_TRUE(rc::check([&] {
      const auto ids =
          *rc::gen::container<std::vector<TokenId>>(rc::gen::inRange(-1, tokenizer->vocab_size() + 1));
      StreamDecoder decoder(*tokenizer);
      std::string streamed;
      for (const TokenId id : ids) {
        const std::string part = decoder.push(id);
        RC_ASSERT(find_invalid_utf8(part) == std::nullopt);
        streamed += part;
      }
      streamed += decoder.finish();
      RC_ASSERT(streamed == tokenizer->decode(ids));
    }));
  }
}

}  // namespace
}  // namespace baleen
