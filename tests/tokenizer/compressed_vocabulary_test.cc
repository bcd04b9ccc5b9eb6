// Tokens by their texts without accents, case and kinds of space: characters, tokens, the released
// vocabulary.
#include "tokenizer/compressed_vocabulary.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tokenizer/small_vocabulary.h"
#include "tokenizer/text_folding.h"

namespace baleen {
namespace {

TEST(FoldText, CharactersOneByOne) {
  struct Folding {
    const char* text;
    const char* folded;
  };
  const Folding cases[] = {
      {"", ""},
      {"plain 09", "plain 09"},
      {"ÀÉîõÜ", "aeiou"},
      {"e\u0301", "e"},              // a mark of its own
      {"ﬁ①½", "fi11⁄2"},             // compatibility forms
      {"ＡＢ\u00A0\u3000", "ab  "},  // full width, kinds of space
      {"ΑΣ", "ασ"},                  // without regard to the end of a word
      {"İI", "ii"},
      {"ß", "ß"},
      {"Ё", "е"},
      {"각", "\u1100\u1161\u11A8"},
      {"가", "\u1100\u1161"},
      {"힣", "\u1112\u1175\u11C2"},
      {"か\u3099が", "かか"},
      {"हि", "ह"},  // a mark that takes room
      {"𝐀𝟘", "a0"},
      {"日本", "日本"},
      {"金", "\u91D1"},  // a compatibility ideograph
      {"🙂", "🙂"},
  };
  for (const Folding& c : cases) EXPECT_EQ(fold_text(c.text), c.folded) << c.text;
}

TEST(CompressedVocabulary, TokensOfOneTextAreOne) {
  // Bytes 0 to 255 are tokens; then these.
  nlohmann::json file = small_vocabulary({{" ", "a"}, {" ", " "}, {"\xC3", "\xA9"}, {"\t", "\n"}});
  file["added_tokens"] = {
      added_token(260, "<｜User｜>", true, false), added_token(261, "\u1EBE", false, false),
      added_token(262, "\u3000", false, false),    added_token(263, "a \t b", false, false),
      added_token(264, "A  B", false, false),      added_token(265, "\u0301", false, false)};
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "tokenizer.json");
  const CompressedVocabulary vocabulary = compress_vocabulary(tokenizer);
  const auto& of = vocabulary.of_token;
  ASSERT_EQ(of.size(), 266U);
  EXPECT_EQ(of['a'], of['A']);
  EXPECT_EQ(of['a'], of[256]);   // " a"
  EXPECT_EQ(of['e'], of[258]);   // "é"
  EXPECT_EQ(of['e'], of[261]);   // "Ế"
  EXPECT_EQ(of[' '], of['\t']);  // a lone space, whichever of the run
  EXPECT_EQ(of[' '], of['\n']);
  EXPECT_EQ(of[' '], of[257]);  // "  "
  EXPECT_EQ(of[' '], of[259]);  // "\t\n"
  EXPECT_EQ(of[' '], of[262]);  // folds to a space
  EXPECT_EQ(of[263], of[264]);
  EXPECT_NE(of['a'], of['b']);
  EXPECT_NE(of['\v'], of[' ']);  // not of the run: nothing is left of it, so it stays as it was
  EXPECT_NE(of['\v'], of['\f']);
  EXPECT_NE(of[0xC3], of[0xC4]);  // no whole characters: each is itself
  EXPECT_NE(of[265], of['a']);    // a mark alone stays as it was
  // In the order of token ids: the first is 0, and each new text is the next.
  TokenId next = 0;
  for (const TokenId id : of) {
    EXPECT_LE(id, next);
    next = std::max<TokenId>(next, id + 1);
  }
  EXPECT_EQ(vocabulary.size, next);
}

TEST(CompressedVocabulary, AnotherSizeIsRefused) {
  const Tokenizer tokenizer = Tokenizer::parse(small_vocabulary({}).dump(), "tokenizer.json");
  const CompressedVocabulary vocabulary = compress_vocabulary(tokenizer);
  EXPECT_EQ(why_not_vocabulary(vocabulary, vocabulary.size), "");
  EXPECT_EQ(why_not_vocabulary(vocabulary, 99'092),
            fmt::format(
                "its 256 tokens are {} without accents, case and kinds of space, expected 99092 "
                "(\"engram_compressed_vocab_size\"), by which n-grams are hashed: take the checkpoint's own "
                "tokenizer",
                vocabulary.size));
}

/// The published size, of which every multiplier is made.
TEST(CompressedVocabulary, ReleasedVocabulary) {
  const std::filesystem::path folder = "../shared/data/tokenizer";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const CompressedVocabulary vocabulary = compress_vocabulary(Tokenizer::load(folder));
  EXPECT_EQ(vocabulary.of_token.size(), 129'280U);
  EXPECT_EQ(vocabulary.size, 99'092);
  EXPECT_EQ(why_not_vocabulary(vocabulary, 99'092), "");
}

}  // namespace
}  // namespace baleen
