// Tool calls in V4.1's tags: whatever is rendered reads back, in pieces of any size and cut at any place, and
// each release's reader takes the other's tags for damage.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "chat/content_divider.h"
#include "chat/dsml.h"
#include "chat/format.h"
#include "chat/parse.h"
#include "chat/stream_splitter.h"
#include "read_reply.h"

namespace baleen {
namespace {

using namespace chat_format;
using test::ReadReply;

const CallTags& kTags = spaced_call_tags();

/// Text that spells no token, with what a tag begins and ends with in it.
std::string words() {
  std::string text;
  for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
    text +=
        *rc::gen::element<std::string>("a", " ", "\n", "\n\n", "\"", "\\", "é", "狐", ">", "<", "</", "｜",
                                       " calls", " invoke name=\"f\">", " parameter>", "<|DSML| calls>");
  }
  return test::leaks_markup(text) ? "" : text;
}

PythonJson value() {
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return PythonJson(PythonJson::Number{std::to_string(*rc::gen::arbitrary<int>())});
    case 1:
      return PythonJson(*rc::gen::arbitrary<bool>());
    case 2:
      return PythonJson::Array{PythonJson(words()), PythonJson()};
    default:
      return words();
  }
}

std::vector<ToolCall> calls() {
  std::vector<ToolCall> calls;
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    PythonJson::Object arguments;
    const int num = *rc::gen::inRange(0, 3);
    for (int j = 0; j < num; ++j) arguments.push_back({"k" + std::to_string(j), value()});
    calls.push_back({"", *rc::gen::element<std::string>("f", "crm::find", "get-weather"),
                     dump_python_json(PythonJson(arguments))});
  }
  return calls;
}

const std::vector<DeclaredTool>& tools() {
  static const std::vector<DeclaredTool> list = {{"f", {}}, {"crm::find", {}}, {"get-weather", {}}};
  return list;
}

std::string block(std::span<const ToolCall> calls) {
  return "\n\n" + render_tool_calls(calls, prompt_rules(PromptProfile::kV41)).value().text;
}

bool has_calls(const ReadReply& read, std::span<const ToolCall> calls) {
  return std::ranges::equal(read.calls, calls, [](const auto& got, const ToolCall& want) {
    return got.first == want.name && got.second == want.arguments;
  });
}

RC_GTEST_PROP(SpacedTags, RandomCallsReadBackAtEverySplit, ()) {
  const std::vector<ToolCall> meant = calls();
  const std::string text = block(meant);
  const Result<Message> parsed = parse_completion(text + std::string(kEos), ThinkingMode::kChat, kTags);
  if (!parsed) RC_DISCARD("text beside its neighbours became markup");
  RC_ASSERT(parsed.value().tool_calls.size() == meant.size());
  const MarkedText reply = with_marked_specials("Wait." + text + std::string(kEos));
  const std::vector<MarkedText> pieces = test::pieces_of(reply, 1);
  for (const CallEnforcement enforcement : {CallEnforcement::kNone, CallEnforcement::kFromToken}) {
    for (std::size_t split = 0; split <= pieces.size(); ++split) {
      MarkedText first, second;
      for (std::size_t i = 0; i < pieces.size(); ++i) (i < split ? first : second).append(pieces[i]);
      ReplyReader reader(ThinkingMode::kChat, tools(), enforcement, kTags);
      test::PartsCollector collector;
      collector.add(reader.feed(first));
      collector.add(reader.feed(second));
      const ReadReply read = collector.finish(reader, false);
      RC_ASSERT(has_calls(read, meant));
      RC_ASSERT(read.content == "Wait.");
      RC_ASSERT(read.num_repairs == 0u);
      RC_ASSERT(read.raw_calls == text);
    }
    const ReadReply bytewise =
        test::read_reply(reply, tools(), {.piece_bytes = 1, .enforcement = enforcement, .tags = &kTags});
    RC_ASSERT(has_calls(bytewise, meant));
  }
  const ReadReply whole_body =
      test::read_reply(with_marked_specials(text), tools(),
                       {.piece_bytes = 1, .enforcement = CallEnforcement::kWholeBody, .tags = &kTags});
  RC_ASSERT(has_calls(whole_body, meant));
}

RC_GTEST_PROP(SpacedTags, TheSplitterKeepsBlocksFromContentAtEverySplit, ()) {
  const std::string text = block(calls()) + std::string(kEos);
  for (std::size_t split = 0; split <= text.size(); ++split) {
    StreamSplitter splitter(ThinkingMode::kChat, kTags);
    std::string content, block;
    const auto add = [&](const std::vector<StreamSplitter::Delta>& deltas) {
      for (const auto& delta : deltas)
        (delta.kind == StreamSplitter::Kind::kToolCalls ? block : content) += delta.text;
    };
    add(splitter.feed("Wait." + text.substr(0, split)));
    add(splitter.feed(text.substr(split)));
    add(splitter.finish());
    RC_ASSERT(content == "Wait.");
    RC_ASSERT(block == text);
  }
}

TEST(SpacedTags, TextBehindABlockIsContentToTheDivider) {
  const std::string text = block(std::vector<ToolCall>{{"", "f", "{}"}});
  for (const std::size_t piece_bytes : {1U, 3U, 1000U}) {
    ContentDivider divider(ThinkingMode::kChat, true, CallEnforcement::kNone, kTags);
    std::string content;
    const auto add = [&](const std::vector<ReplyStretch>& stretches) {
      for (const ReplyStretch& stretch : stretches) content += stretch.is_content ? stretch.text.text : "";
    };
    for (const MarkedText& piece :
         test::pieces_of(with_marked_specials("Hi." + text + "\nMore."), piece_bytes))
      add(divider.feed(piece));
    add(divider.finish());
    EXPECT_EQ(content, "Hi.\nMore.") << piece_bytes;
  }
}

/// A model that falls back to the tags of another release means calls all the same, but what it wrote is
/// damaged: no byte of it goes into a later prompt.
TEST(SpacedTags, TheOtherReleasesTagsAreRepaired) {
  const std::vector<ToolCall> meant = {{"", "f", R"({"k": "v", "n": 3})"}, {"", "get-weather", "{}"}};
  for (const PromptProfile& profile : {PromptProfile::kPreview, PromptProfile::kV41}) {
    const std::string text = "\n\n" + render_tool_calls(meant, prompt_rules(profile)).value().text;
    for (const CallTags* tags : {&joined_call_tags(), &spaced_call_tags()}) {
      const ReadReply read = test::read_reply(text + std::string(kEos), tools(), {.tags = tags});
      EXPECT_TRUE(has_calls(read, meant)) << text;
      const bool is_own = tags == &call_tags(profile);
      EXPECT_EQ(read.num_repairs == 0, is_own);
      EXPECT_EQ(read.raw_calls, is_own ? text : "");
      EXPECT_EQ(parse_completion(text + std::string(kEos), ThinkingMode::kChat, *tags).ok(), is_own);
    }
  }
}

TEST(SpacedTags, ANamespaceThatIsMissingIsTheOnlyOneThereIs) {
  const auto called = [](const char* name, const std::vector<DeclaredTool>& declared) {
    const ReadReply read =
        test::read_reply(block(std::vector<ToolCall>{{"", name, "{}"}}), declared, {.tags = &kTags});
    return read.calls.empty() ? "none" : read.calls[0].first;
  };
  EXPECT_EQ(called("find", {{"crm::find", {}}, {"crm::add", {}}}), "crm::find");
  EXPECT_EQ(called("find", {{"crm::find", {}}, {"web::find", {}}}), "none");
  EXPECT_EQ(called("find", {{"crm::find", {}}, {"find", {}}}), "find");
  EXPECT_EQ(called("web::find", {{"crm::find", {}}}), "none");
}

TEST(SpacedTags, ABlockInReasoningIsACallWhereNothingFollows) {
  const std::vector<ToolCall> meant = {{"", "f", "{}"}};
  const std::string text = block(meant);
  const ReadReply call =
      test::read_reply("so" + text, tools(), {.mode = ThinkingMode::kThinking, .tags = &kTags});
  EXPECT_TRUE(has_calls(call, meant));
  const ReadReply thought = test::read_reply("so" + text + " or not</think>No.", tools(),
                                             {.mode = ThinkingMode::kThinking, .tags = &kTags});
  EXPECT_TRUE(thought.calls.empty());
  EXPECT_EQ(thought.content, "No.");
}

}  // namespace
}  // namespace baleen
