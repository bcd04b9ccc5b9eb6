// Only ids tell tokens from text that looks like them; stop strings and cut characters do not change that.
#include "generation/reply_stream.h"

#include <gtest/gtest.h>

#include "chat/format.h"

namespace baleen {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = Tokenizer::load("models/stories");
  return kTokenizer;
}

/// The text as text, then the token, then the text once more.
std::vector<TokenId> around(const MarkedText& text) { return tokenizer().encode(text).value(); }

MarkedText shown(const std::vector<TokenId>& ids, std::vector<std::string> stops) {
  ReplyStream stream(tokenizer(), std::move(stops));
  MarkedText text;
  for (const TokenId id : ids) text.append(stream.push(id));
  text.append(stream.finish());
  return text;
}

MarkedText sample() {
  MarkedText text;
  text.add_text("a ｜DSML｜ é <");
  text.add_control(chat_format::kDsml);
  text.add_control(chat_format::kDsml);
  text.add_text("invoke> ｜DSML｜");
  text.add_control(chat_format::kEndThink);
  text.add_text("end");
  return text;
}

TEST(ReplyStream, MarksTokensAndNothingElse) {
  EXPECT_EQ(shown(around(sample()), {}), sample());
  EXPECT_EQ(shown(around(sample()), {"nothing", "<｜DSML｜invoke>x", "｜D｜"}), sample());
}

TEST(ReplyStream, AStopStringCutsTokensWhole) {
  MarkedText until_stop;
  until_stop.add_text("a ｜DSML｜ é <");
  EXPECT_EQ(shown(around(sample()), {"DSML｜｜DSML｜invoke"}), until_stop);
  until_stop.add_control(chat_format::kDsml);
  until_stop.add_control(chat_format::kDsml);
  EXPECT_EQ(shown(around(sample()), {"invoke"}), until_stop);
}

TEST(ReplyStream, ACharacterThatATokenCutsIsReplaced) {
  std::vector<TokenId> ids = around({.text = "é"});
  const std::string_view bytes = tokenizer().bytes_of(ids.front());
  if (bytes.size() == 2) GTEST_SKIP() << "é is one token here";
  ids.resize(1);
  ids.push_back(*tokenizer().id_of(chat_format::kDsml));
  MarkedText expected;
  expected.add_text("\uFFFD");
  expected.add_control(chat_format::kDsml);
  EXPECT_EQ(shown(ids, {}), expected);
}

}  // namespace
}  // namespace baleen
