// Only ids tell tokens from text that looks like them; stop strings and cut characters do not change that.
#include "generation/reply_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

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

/// Content is what stands between square brackets.
class BracketDivider final : public ReplyDivider {
 public:
  std::vector<ReplyStretch> feed(const MarkedText& piece) override {
    std::vector<ReplyStretch> stretches;
    for (const char byte : piece.text) {
      if (byte == ']') is_content_ = false;
      stretches.push_back({.text = {.text = {byte}}, .is_content = is_content_});
      if (byte == '[') is_content_ = true;
    }
    return stretches;
  }
  std::vector<ReplyStretch> finish() override { return {{.text = {.text = "!"}}}; }

 private:
  bool is_content_ = false;
};

struct Stopped {
  std::string text;
  std::optional<std::size_t> stop_idx;
  bool operator==(const Stopped&) const = default;
};

Stopped divided(const std::string& reply, std::vector<std::string> stops) {
  ReplyStream stream(tokenizer(), std::move(stops), [] { return std::make_unique<BracketDivider>(); });
  std::string text;
  for (const TokenId id : around({.text = reply})) text += stream.push(id).text;
  text += stream.finish().text;
  return {text, stream.stopped() ? std::optional(stream.stop_idx()) : std::nullopt};
}

TEST(ReplyStream, StopStringsAreLookedForInContentAlone) {
  EXPECT_EQ(divided("the[a]the", {"the", "\n"}), (Stopped{"the[a]the!", std::nullopt}));
  EXPECT_EQ(divided("the[ a the b]", {"x", "the"}), (Stopped{"the[ a ", 1}));
  EXPECT_EQ(divided("the[one]two[one two]", {"one two"}), (Stopped{"the[one]two[", 0}));
  // Neither across what is no content, nor of it and content together.
  EXPECT_EQ(divided("ab[cd]x[ef]", {"bcd", "[cd", "cdef", "cd]"}), (Stopped{"ab[cd]x[ef]!", std::nullopt}));
  EXPECT_EQ(divided("[ab]c[bc]", {"abc"}), (Stopped{"[ab]c[bc]!", std::nullopt}));
}

TEST(ReplyStream, AStopStringInWhatWasHeldBackIsFoundAtTheEnd) {
  class Late final : public ReplyDivider {
   public:
    std::vector<ReplyStretch> feed(const MarkedText& piece) override {
      held_.append(piece);
      return {};
    }
    std::vector<ReplyStretch> finish() override { return {{.text = held_, .is_content = true}}; }

   private:
    MarkedText held_;
  };
  ReplyStream stream(tokenizer(), {"b"}, [] { return std::make_unique<Late>(); });
  for (const TokenId id : around({.text = "abc"})) EXPECT_EQ(stream.push(id).text, "");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.finish().text, "a");
  EXPECT_TRUE(stream.stopped());
}

}  // namespace
}  // namespace baleen
