// The file that training writes: the parts of the release, and a tokenizer that loads.
#include "tokenizer_training/trained_tokenizer.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "chat/special_strings.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

TrainedMerges small_merges() {
  const std::vector<WordCount> words{{"hello", 5}, {" world", 4}, {" hello", 3}};
  return train_merges(words, {.num_tokens = 270, .min_count = 2});
}

TEST(V4Format, PatternsAreThoseOfTheRelease) {
  const std::string path = "models/stories/tokenizer.json";
  const TokenizerJson released = read_tokenizer_json(read_text_file(path), path);
  const std::vector<SplitRule> rules = v4_split_rules();
  ASSERT_EQ(rules.size(), released.splits.size());
  for (std::size_t i = 0; i < rules.size(); ++i) EXPECT_EQ(rules[i].pattern, released.splits[i].pattern);
}

TEST(V4Format, ChatTokensAreWhatTheChatFormatWrites) {
  const auto texts_of = [](SpecialTokenSet set) {
    std::set<std::string> texts;
    for (const AddedToken& token : v4_special_tokens(set)) texts.insert(token.text);
    return texts;
  };
  std::set<std::string> expected{"<｜▁pad▁｜>", "<｜deepseek_image｜>"};
  for (const std::string_view text : special_strings()) expected.emplace(text);
  EXPECT_EQ(texts_of(SpecialTokenSet::kV41), expected);
  EXPECT_EQ(expected.size(), 17u);
  expected.erase("<｜deepseek_image｜>");
  expected.erase("<｜System｜>");
  EXPECT_EQ(texts_of(SpecialTokenSet::kChat), expected);
  EXPECT_EQ(v4_special_tokens(SpecialTokenSet::kAll).size(), 66u);
}

TEST(V4Format, AWrittenFileLoadsAndKeepsText) {
  for (const SpecialTokenSet set : {SpecialTokenSet::kChat, SpecialTokenSet::kAll, SpecialTokenSet::kV41}) {
    const std::size_t num_special = v4_special_tokens(set).size();
    const Tokenizer tokenizer =
        Tokenizer::parse(v4_tokenizer_json(trained_tokenizer(small_merges(), set)), "test");
    EXPECT_EQ(static_cast<std::size_t>(tokenizer.vocab_size()), small_merges().tokens.size() + num_special);
    EXPECT_EQ(tokenizer.id_of("<｜begin▁of▁sentence｜>"), TokenId{0});
    EXPECT_EQ(tokenizer.id_of("<｜▁pad▁｜>"), TokenId{2});
    EXPECT_EQ(tokenizer.bytes_of(3), "!");
    const std::string text = "hello world<think>Zoë 你好 \t\n</think>";
    const auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(tokenizer.decode(ids.value()), text);
    EXPECT_EQ(tokenizer.bytes_of(ids.value().front()), "hello");
  }
}

}  // namespace
}  // namespace baleen
