// The splitter against the strict parser, over every way to cut a completion.
#include "chat/stream_splitter.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "base/utf8.h"
#include "chat/format.h"
#include "chat/message_json.h"
#include "chat/parse.h"

namespace baleen {
namespace {

using Kind = StreamSplitter::Kind;
using Delta = StreamSplitter::Delta;
using Texts = std::map<Kind, std::string>;

void collect(Texts& texts, const std::vector<Delta>& deltas) {
  for (const Delta& delta : deltas) texts[delta.kind] += delta.text;
}

Texts split_whole(std::string_view text, ThinkingMode mode) {
  Texts texts;
  StreamSplitter splitter(mode);
  collect(texts, splitter.feed(text));
  collect(texts, splitter.finish());
  return texts;
}

const std::string kEos(chat_format::kEos);
const std::string kCalls =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"狐\" string=\"true\">😀"
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

TEST(StreamSplitter, GivesOutWhatIsCertain) {
  StreamSplitter splitter(ThinkingMode::kThinking);
  EXPECT_EQ(splitter.feed("so <"), (std::vector<Delta>{{Kind::kReasoning, "so "}}));
  EXPECT_EQ(splitter.feed("b> </thi"), (std::vector<Delta>{{Kind::kReasoning, "<b> "}}));
  EXPECT_EQ(splitter.feed("nk>yes\n"), (std::vector<Delta>{{Kind::kContent, "yes"}}));
  EXPECT_EQ(splitter.feed("\n"), (std::vector<Delta>{}));
  EXPECT_EQ(
      splitter.feed("more\n\n<｜DSML｜tool_calls>\n"),
      (std::vector<Delta>{{Kind::kContent, "\n\nmore"}, {Kind::kToolCalls, "\n\n<｜DSML｜tool_calls>\n"}}));
  EXPECT_EQ(splitter.kind(), Kind::kToolCalls);
  EXPECT_EQ(splitter.feed("</｜DSML｜tool_calls>"),
            (std::vector<Delta>{{Kind::kToolCalls, "</｜DSML｜tool_calls>"}}));
  EXPECT_EQ(splitter.finish(), (std::vector<Delta>{}));
}

TEST(StreamSplitter, WaitsForWholeCharacters) {
  StreamSplitter splitter(ThinkingMode::kChat);
  EXPECT_EQ(splitter.feed("a\xF0\x9F"), (std::vector<Delta>{{Kind::kContent, "a"}}));
  EXPECT_EQ(splitter.feed("\x98\x80"), (std::vector<Delta>{{Kind::kContent, "😀"}}));
}

TEST(StreamSplitter, FinishGivesOutWhatWaited) {
  StreamSplitter splitter(ThinkingMode::kChat);
  EXPECT_EQ(splitter.feed("a\n\n<｜DSML"), (std::vector<Delta>{{Kind::kContent, "a"}}));
  EXPECT_EQ(splitter.finish(), (std::vector<Delta>{{Kind::kContent, "\n\n<｜DSML"}}));
}

TEST(StreamSplitter, TheEndTokenEnds) {
  StreamSplitter splitter(ThinkingMode::kChat);
  EXPECT_EQ(splitter.feed("a" + kEos + "b"), (std::vector<Delta>{{Kind::kContent, "a"}}));
  EXPECT_TRUE(splitter.ended());
  EXPECT_EQ(splitter.feed("c"), (std::vector<Delta>{}));
  EXPECT_EQ(splitter.finish(), (std::vector<Delta>{}));
}

TEST(StreamSplitter, ACallTagWithinReasoningIsReasoning) {
  EXPECT_EQ(split_whole("r" + kCalls + "</think>c", ThinkingMode::kThinking),
            (Texts{{Kind::kReasoning, "r" + kCalls}, {Kind::kContent, "c"}}));
}

RC_GTEST_PROP(StreamSplitter, EveryCutGivesTheMessageOfTheParser, ()) {
  const auto words = [] {
    std::string text;
    for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
      text += *rc::gen::element("a", "é", "狐", "😀", "\n", "\n\n", "<", "</", "\n\n<", "</thin", "\n\n<｜",
                                "<｜end", ">");
    }
    return text;
  };
  const bool thinking = *rc::gen::arbitrary<bool>(), has_calls = *rc::gen::arbitrary<bool>();
  const std::string text =
      (thinking ? words() + "</think>" : "") + words() + (has_calls ? kCalls : "") + kEos;
  const auto mode = thinking ? ThinkingMode::kThinking : ThinkingMode::kChat;
  const Result<Message> parsed = parse_completion(text, mode);
  if (!parsed) RC_FAIL(parsed.error());

  Texts texts;
  StreamSplitter splitter(mode);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t size = *rc::gen::inRange<std::size_t>(1, 12);
    const std::vector<Delta> deltas = splitter.feed(std::string_view(text).substr(begin, size));
    for (const Delta& delta : deltas) RC_ASSERT(!find_invalid_utf8(delta.text));
    collect(texts, deltas);
    begin += size;
  }
  RC_ASSERT(splitter.finish().empty());  // a complete completion leaves nothing waiting
  RC_ASSERT(texts[Kind::kReasoning] == parsed.value().reasoning_content);
  RC_ASSERT(texts[Kind::kContent] == parsed.value().content);
  RC_ASSERT(texts[Kind::kToolCalls] == (has_calls ? kCalls + kEos : ""));
  if (has_calls) {
    const Result<Message> calls = parse_completion(texts[Kind::kToolCalls], ThinkingMode::kChat);
    RC_ASSERT(calls.ok());
    RC_ASSERT(calls.value().tool_calls[0].arguments == parsed.value().tool_calls[0].arguments);
  }
}

RC_GTEST_PROP(StreamSplitter, CutsDoNotMatterForAnyBytes, (const std::vector<std::string>& pieces)) {
  std::string text;
  Texts texts;
  StreamSplitter splitter(ThinkingMode::kThinking);
  for (const std::string& piece : pieces) {
    text += piece;
    collect(texts, splitter.feed(piece));
  }
  collect(texts, splitter.finish());
  RC_ASSERT(texts == split_whole(text, ThinkingMode::kThinking));
}

}  // namespace
}  // namespace baleen
