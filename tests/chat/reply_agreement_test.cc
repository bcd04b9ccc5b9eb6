// On replies that the strict parser accepts, the tolerant reader says the same.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "chat/format.h"
#include "chat/parse.h"
#include "chat/render.h"
#include "read_reply.h"

namespace baleen {
namespace {

std::string text() {
  std::string text;
  for (int i = *rc::gen::inRange(0, 10); i > 0; --i) {
    text += *rc::gen::element<std::string>("a", " ", "\n", "\n\n", "\"", "\\", "é", "狐", "😀", ">", "<", "</",
                                           "/", "|", "｜", "<b>", "</p>", "｜D", "<think", "</thin", "<｜",
                                           "<|DSML", "'", "name=", "\t", "{", "]");
  }
  return text;
}

/// Text in which neighbours made no markup.
std::string harmless_text() {
  const std::string candidate = text();
  return test::leaks_markup(candidate) ? "" : candidate;
}

PythonJson value(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 6 : 4)) {
    case 0:
      return harmless_text();
    case 1:
      return PythonJson(PythonJson::Number{std::to_string(*rc::gen::arbitrary<int>()) +
                                           *rc::gen::element<std::string>("", ".5")});
    case 2:
      return PythonJson(*rc::gen::arbitrary<bool>());
    case 3:
      return {};
    case 4:
      return PythonJson::Array{value(depth - 1), value(depth - 1)};
    default:
      return PythonJson::Object{{harmless_text(), value(depth - 1)}};
  }
}

Message random_reply() {
  Message message;
  message.role = Role::kAssistant;
  message.reasoning_content = harmless_text();
  message.content = harmless_text();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    PythonJson::Object arguments;
    const int num_arguments = *rc::gen::inRange(0, 4);
    for (int j = 0; j < num_arguments; ++j) {
      arguments.push_back(
          {*rc::gen::element<std::string>("k", "a b", "é", "x>y", "it's") + std::to_string(j), value(2)});
    }
    const std::string name = *rc::gen::element<std::string>("f", "get-weather", "a.b_c");
    message.tool_calls.push_back({"", name, dump_python_json(PythonJson(arguments))});
  }
  return message;
}

PromptProfile any_profile() { return *rc::gen::element(PromptProfile::kPreview, PromptProfile::kV41); }

RC_GTEST_PROP(ReplyAgreement, WithTheStrictParser, ()) {
  const Message message = random_reply();
  const PromptProfile profile = any_profile();
  const CallTags& tags = call_tags(profile);
  const ThinkingMode mode = *rc::gen::element(ThinkingMode::kChat, ThinkingMode::kThinking);
  Message user;
  const std::string before =
      render_prompt(std::vector{user}, {.profile = profile, .thinking_mode = mode}).value();
  const std::string prompt =
      render_prompt(std::vector{user, message}, {.profile = profile, .thinking_mode = mode}).value();
  const std::string reply = prompt.substr(before.size());
  const Result<Message> strict = parse_completion(reply, mode, tags);
  if (!strict) RC_DISCARD("text beside its neighbours became markup");

  const std::vector<DeclaredTool> tools = {{"f", {}}, {"get-weather", {}}, {"a.b_c", {}}};
  const std::size_t piece_bytes = *rc::gen::inRange<std::size_t>(1, 40);
  const test::ReadReply read =
      test::read_reply(reply, tools, {.mode = mode, .piece_bytes = piece_bytes, .tags = &tags});
  RC_ASSERT(read.reasoning == strict.value().reasoning_content);
  RC_ASSERT(read.content == strict.value().content);
  RC_ASSERT(read.calls.size() == strict.value().tool_calls.size());
  for (std::size_t i = 0; i < read.calls.size(); ++i) {
    RC_ASSERT(read.calls[i].first == strict.value().tool_calls[i].name);
    RC_ASSERT(read.calls[i].second == strict.value().tool_calls[i].arguments);
  }
  RC_ASSERT(read.num_repairs == 0u);

  const std::size_t begin = reply.find(tags.calls_start), end = reply.rfind(chat_format::kEos);
  RC_ASSERT(read.raw_calls == (read.calls.empty() ? "" : reply.substr(begin, end - begin)));
}

RC_GTEST_PROP(ReplyAgreement, RawCallsRenderToWhatTheModelWrote, ()) {
  Message message = random_reply();
  Message user, again = message;
  const RenderOptions options{.profile = any_profile()};
  const std::string prompt = render_prompt(std::vector{user, message}, options).value();
  const std::string reply = prompt.substr(render_prompt(std::vector{user}, options).value().size());
  const std::vector<DeclaredTool> tools = {{"f", {}}, {"get-weather", {}}, {"a.b_c", {}}};
  again.raw_tool_calls =
      test::read_reply(reply, tools, {.mode = ThinkingMode::kThinking, .tags = &call_tags(options.profile)})
          .raw_calls;
  if (again.raw_tool_calls.empty()) return;  // no calls, or a value that the strict parser reads otherwise
  for (ToolCall& call : again.tool_calls) call.arguments = "{ \"spaced\"  : 1 }";  // not looked at
  RC_ASSERT(render_prompt(std::vector{user, again}, options).value() == prompt);
}

RC_GTEST_PROP(ReplyAgreement, CutsDoNotMatterForAnyMixOfMarkup, ()) {
  using namespace chat_format;
  const CallTags& tags = call_tags(any_profile());
  const std::string parameter_end = "<" + tags.parameter_end;
  const std::vector<std::string_view> words = {tags.calls_start,
                                               tags.calls_end,
                                               tags.invoke_start,
                                               tags.invoke_end,
                                               tags.parameter_start,
                                               parameter_end,
                                               kEos,
                                               kEndThink,
                                               kThink,
                                               kUser,
                                               kDsml,
                                               ">",
                                               ">\n",
                                               "\n",
                                               " name=\"f\"",
                                               " name='a'",
                                               " name=\"a",
                                               " string=\"true\"",
                                               " string=\"false\"",
                                               "<",
                                               "/",
                                               "|DSML|",
                                               "x",
                                               "[1",
                                               "{\"k\": 'v'}",
                                               "\"",
                                               "\xFF",
                                               "\xEF\xBD",
                                               "狐",
                                               " ",
                                               "name",
                                               "/>"};
  std::string reply;
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i) reply += *rc::gen::elementOf(words);
  const bool cut = *rc::gen::arbitrary<bool>();
  const std::vector<DeclaredTool> tools = {{"f", {}}};
  for (const ThinkingMode mode : {ThinkingMode::kChat, ThinkingMode::kThinking}) {
    const test::ReadReply whole = test::read_reply(reply, tools, {.mode = mode, .cut = cut, .tags = &tags});
    RC_ASSERT(
        whole ==
        test::read_reply(
            reply, tools,
            {.mode = mode, .cut = cut, .piece_bytes = *rc::gen::inRange<std::size_t>(1, 9), .tags = &tags}));
    RC_ASSERT(!test::leaks_markup(whole.content));
    RC_ASSERT(!test::leaks_markup(whole.reasoning));
    for (const auto& call : whole.calls) RC_ASSERT(test::is_json_object(call.second));
  }
}

TEST(ReplyAgreement, CutsBehindBlanksAtTheStartOfALineDoNotMatter) {
  for (const std::string before : {" <", "a\n\t <", "  <tool_calls>", " ```\n <", "\n   "}) {
    for (const CallTags* tags : {&joined_call_tags(), &spaced_call_tags()}) {
      const std::string reply = before + tags->calls_start;
      for (const ThinkingMode mode : {ThinkingMode::kChat, ThinkingMode::kThinking}) {
        const test::ReadReply whole = test::read_reply(reply, {}, {.mode = mode, .tags = tags});
        for (const std::size_t piece_bytes : {1U, 2U, 3U, 5U})
          EXPECT_EQ(whole,
                    test::read_reply(reply, {}, {.mode = mode, .piece_bytes = piece_bytes, .tags = tags}))
              << before;
      }
    }
  }
}

}  // namespace
}  // namespace baleen
