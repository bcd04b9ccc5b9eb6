// One tag, right and almost right, with its token and without.
#include "chat/tag.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

using Kind = Markup::Kind;

/// What follows `<｜DSML｜`.
Markup tag(std::string_view text, const CallTags& tags = joined_call_tags()) {
  std::size_t num_bytes = 0;
  Markup markup = read_tag(text, false, tags, num_bytes);
  markup.raw = text.substr(0, num_bytes);
  return markup;
}

std::string look_alike(std::string_view text) {
  std::size_t num_bytes = 0;
  return read_look_alike(text, num_bytes) ? std::string(text.substr(0, num_bytes)) : "none";
}

TEST(Tag, Attributes) {
  const Markup all = tag("parameter name=\"a \"b\" c>\" string=\"false\">rest");
  EXPECT_EQ(all.name, "a \"b\" c>");
  EXPECT_EQ(all.is_string, false);
  EXPECT_TRUE(all.raw.ends_with("\"false\">"));
  EXPECT_EQ(tag("invoke name=\"f>\n").name, "f");
  EXPECT_EQ(tag("invoke name=\"f'>\n").name, "f");
  EXPECT_EQ(tag("parameter name=\"k string=\"true\">").name, "k");
  EXPECT_EQ(tag("parameter name=\"k string=\"true\">").is_string, true);
  EXPECT_TRUE(tag("invoke name=\"f\"/>").is_empty);
  EXPECT_FALSE(tag("invoke name=\"f\"\n").is_ended);
  EXPECT_EQ(tag("invoke name=\"f\"\n").raw, "invoke name=\"f\"");
}

TEST(Tag, IsExactInTheSpellingOfItsReleaseAlone) {
  const struct {
    const char* joined;
    const char* spaced;
    Kind kind;
  } kTags[] = {
      {"tool_calls>", " calls>", Kind::kCalls},
      {"invoke name=\"f\">", " invoke name=\"f\">", Kind::kInvoke},
      {"parameter name=\"a\" string=\"true\">", " parameter name=\"a\" string=\"true\">", Kind::kParameter}};
  for (const auto& [joined, spaced, kind] : kTags) {
    for (const char* text : {joined, spaced}) {
      for (const CallTags* tags : {&joined_call_tags(), &spaced_call_tags()}) {
        const Markup read = tag(text, *tags);
        EXPECT_EQ(read.kind, kind) << text;
        EXPECT_EQ(read.raw, text);
        EXPECT_EQ(read.tag_name.find(' '), std::string::npos);
        const bool is_own = (text == joined) == (tags == &joined_call_tags());
        EXPECT_EQ(read.is_exact, is_own) << text;
      }
    }
  }
}

TEST(Tag, OtherAttributesAndOrders) {
  for (const char* text :
       {"parameter key=\"command\" string=\"true\">ls", "parameter \"command\" string=\"true\">ls",
        "parameter name=\"command\" type=\"string\" string=\"true\">ls",
        "parameter name=\"command\" type=\"string\">ls", "param name=command string=true>ls",
        "parameter name=\"command\" string=\"true\"ls", "Parameter string='true' name='command'>ls",
        "parameter id=\"1\" name=\"command\" string=\"true\">ls"}) {
    const Markup parameter = tag(text);
    EXPECT_EQ(parameter.kind, Kind::kParameter) << text;
    EXPECT_EQ(parameter.name, "command") << text;
    EXPECT_EQ(parameter.is_string, true) << text;
    EXPECT_FALSE(parameter.is_doubtful) << text;
    EXPECT_EQ(std::string_view(text).substr(parameter.raw.size()), "ls") << text;
  }
}

TEST(Tag, WhereItEndsMayBeDoubtful) {
  for (const char* text : {"parameter name=\"a\" string=\"true\"x=1", "parameter name=\"a\" key=\"b\">",
                           "parameter name=\"a\" string=\"true\" x=1 > y"}) {
    EXPECT_TRUE(tag(text).is_doubtful) << text;
  }
  EXPECT_FALSE(tag("parameter name=\"a\" string=\"true\"<b class=\"x\">").is_doubtful);
}

TEST(Tag, ATagThatNeverEndsIsCutAtItsLimit) {
  const std::string endless = "invoke name=\"" + std::string(5000, 'x');
  EXPECT_LE(tag(endless).raw.size(), kMaxTagBytes);
  EXPECT_FALSE(tag(endless).is_ended);
}

TEST(Tag, LookAlikes) {
  for (const char* text :
       {"<|DSML|parameter name=\"x\">", "<DSML param name=\"x\">", "</DSML|invoke>", "</parameter>",
        "<|DSML|/invoke>", "</tool_calls>", "<DSML Invoke name=\"x\">", "|DSML|invoke name=\"f\">"}) {
    EXPECT_EQ(look_alike(text), text);
  }
  for (const char* text : {"<b>", "</div>", "|DSML| is", "<DSML invoke>", "<|DSML|invoked>", "/path",
                           "| a | b |", "｜", "<parameter>", "DSML｜invoke"}) {
    EXPECT_EQ(look_alike(text), "none") << text;
  }
  EXPECT_EQ(without_look_alike_closers("ls</parameter>\n</invoke>\n", ""), "ls");
  EXPECT_EQ(without_look_alike_closers("ls</command>", "command"), "ls");
  EXPECT_EQ(without_look_alike_closers("<b>ls</b>\n", "command"), "<b>ls</b>\n");
}

TEST(WithoutMarkup, LeavesNothingThatJoins) {
  EXPECT_EQ(without_markup("a<think>b"), "a b");
  EXPECT_EQ(without_markup("<thi<think>nk>"), "<thi nk>");
  EXPECT_EQ(without_markup("plain < text"), "plain < text");
}

}  // namespace
}  // namespace baleen
