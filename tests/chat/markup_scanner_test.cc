// Where text ends and markup begins, and what waits.
#include "chat/markup_scanner.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

using Kind = Markup::Kind;

Markup only(std::string_view text) {
  const MarkupMatch match = match_markup(text, true);
  return match.verdict == MarkupMatch::Verdict::kFound ? match.markup : Markup{Kind::kText, "none"};
}

TEST(Markup, Attributes) {
  const Markup tag = only("<｜DSML｜parameter name=\"a \"b\" c>\" string=\"false\">rest");
  EXPECT_EQ(tag.name, "a \"b\" c>");
  EXPECT_EQ(tag.is_string, false);
  EXPECT_TRUE(tag.raw.ends_with("\"false\">"));
  EXPECT_EQ(only("<｜DSML｜invoke name=\"f>\n").name, "f");
  EXPECT_EQ(only("<｜DSML｜invoke name=\"f'>\n").name, "f");
  EXPECT_EQ(only("<｜DSML｜parameter name=\"k string=\"true\">").name, "k");
  EXPECT_EQ(only("<｜DSML｜parameter name=\"k string=\"true\">").is_string, true);
  EXPECT_TRUE(only("<｜DSML｜invoke name=\"f\"/>").is_empty);
  EXPECT_FALSE(only("<｜DSML｜invoke name=\"f\"\n<").is_ended);
  EXPECT_EQ(only("<｜DSML｜invoke name=\"f\"\n<").raw, "<｜DSML｜invoke name=\"f\"");
}

TEST(Markup, WhatIsNone) {
  for (const char* text : {"<b>", "</div>", "|DSML| is", "<DSML invoke>", "DSML｜invoke", "<|DSML|invoked>",
                           "/path", "| a | b |", "｜", "<thinker>", "，"}) {
    EXPECT_EQ(only(text).raw, "none") << text;
  }
}

TEST(Markup, ATagThatNeverEndsIsCutAtItsLimit) {
  const std::string endless = "<｜DSML｜invoke name=\"" + std::string(5000, 'x');
  EXPECT_EQ(match_markup(endless.substr(0, 1000), false).verdict, MarkupMatch::Verdict::kUnfinished);
  const MarkupMatch match = match_markup(endless, false);
  EXPECT_EQ(match.verdict, MarkupMatch::Verdict::kFound);
  EXPECT_EQ(match.markup.raw.size(), kMaxTagBytes);
}

TEST(MarkupScanner, WaitsOnlyForWhatMayBeMarkup) {
  MarkupScanner scanner;
  const auto text_of = [](const std::vector<Markup>& stretches) {
    std::string text;
    for (const Markup& stretch : stretches) text += "[" + stretch.raw + "]";
    return text;
  };
  EXPECT_EQ(text_of(scanner.feed("a <")), "[a ]");
  EXPECT_EQ(text_of(scanner.feed("b <th")), "[<b ]");
  EXPECT_EQ(text_of(scanner.feed("ink>c")), "[<think>][c]");
  EXPECT_EQ(text_of(scanner.feed("</｜DSML｜invoke")), "");
  EXPECT_EQ(text_of(scanner.feed("> |")), "[</｜DSML｜invoke>][ ]");
  EXPECT_EQ(text_of(scanner.finish()), "[|]");
}

TEST(WithoutMarkup, LeavesNothingThatJoins) {
  EXPECT_EQ(without_markup("a<think>b"), "a b");
  EXPECT_EQ(without_markup("<thi<think>nk>"), "<thi nk>");
  EXPECT_EQ(without_markup("plain < text"), "plain < text");
}

}  // namespace
}  // namespace baleen
