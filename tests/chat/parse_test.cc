// Completions that goldens/parse.jsonl does not hold: whatever renders, parses back; whatever comes, nothing
// breaks.
#include "chat/parse.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "chat/format.h"
#include "chat/message_json.h"
#include "chat/render.h"

namespace baleen {
namespace {

/// Text without special strings: no '<' and no full-width bar can come out of it.
rc::Gen<std::string> plain_text() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "a", " ", "\n", "\"", "\\", "é", "狐", "😀", ">", "\n\n", "\t")),
                      [](const std::vector<std::string>& words) {
                        std::string text;
                        for (const std::string& word : words) text += word;
                        return text;
                      });
}

rc::Gen<PythonJson> argument() {
  return rc::gen::oneOf(
      rc::gen::map(plain_text(), [](std::string text) { return PythonJson(std::move(text)); }),
      rc::gen::map(rc::gen::arbitrary<int>(),
                   [](int number) { return PythonJson(PythonJson::Number{std::to_string(number)}); }),
      rc::gen::map(plain_text(), [](std::string text) {
        return PythonJson(
            PythonJson::Array{PythonJson(true), PythonJson(PythonJson::Object{{text, PythonJson()}})});
      }));
}

rc::Gen<Message> reply() {
  return rc::gen::exec([] {
    Message message;
    message.role = Role::kAssistant;
    message.reasoning_content = *plain_text();
    message.content = *plain_text();
    const int num_calls = *rc::gen::inRange(0, 3);
    for (int i = 0; i < num_calls; ++i) {
      PythonJson::Object arguments;
      const int num_arguments = *rc::gen::inRange(0, 3);
      for (int j = 0; j < num_arguments; ++j) arguments.push_back({std::to_string(j), *argument()});
      message.tool_calls.push_back({"", std::to_string(i), dump_python_json(PythonJson(arguments))});
    }
    return message;
  });
}

PromptProfile any_profile() {
  return *rc::gen::element(PromptProfile::kPreview, PromptProfile::kOfficial, PromptProfile::kV41);
}

const CallTags* any_tags() { return &call_tags(any_profile()); }

RC_GTEST_PROP(Parse, WhatIsRenderedParsesBack, ()) {
  const Message message = *reply();
  const RenderOptions options{.profile = any_profile()};
  Message user;
  const std::string before = render_prompt(std::vector{user}, options).value();
  const std::string whole = render_prompt(std::vector{user, message}, options).value();
  RC_ASSERT(whole.starts_with(before));
  const Result<Message> parsed =
      parse_completion(whole.substr(before.size()), ThinkingMode::kThinking, call_tags(options.profile));
  if (!parsed) RC_FAIL(parsed.error());
  RC_ASSERT(dump_python_json(message_to_json(parsed.value())) == dump_python_json(message_to_json(message)));
}

RC_GTEST_PROP(Parse, ErrorsQuoteWholeCharactersOnly, ()) {
  std::string text = "a";
  for (int i = *rc::gen::inRange(0, 60); i > 0; --i) text += *rc::gen::element("b", "é", "狐", "😀");
  const Result<Message> parsed = parse_completion(text, ThinkingMode::kChat);
  RC_ASSERT(!parsed);
  RC_ASSERT(parse_python_json(quote_python_json(parsed.error())).ok());  // valid UTF-8
}

TEST(Parse, ErrorsSayWhatWhereAndFound) {
  EXPECT_EQ(parse_completion("hello", ThinkingMode::kChat).error(),
            "completion, byte 0: expected the end-of-sentence token or a tool call after the content, found "
            "\"hello\"");
  EXPECT_EQ(
      parse_completion("a</think>b" + std::string(chat_format::kEos) + "c", ThinkingMode::kThinking).error(),
      "completion, byte 37: expected nothing after the end-of-sentence token, found \"c\"");
}

RC_GTEST_PROP(Parse, AnyMixOfTheFormatsStringsIsAValueOrAnError, ()) {
  const CallTags& tags = *any_tags();
  const std::vector<std::string_view> pieces = {tags.calls_start,
                                                tags.calls_end,
                                                tags.invoke_start,
                                                tags.invoke_end,
                                                tags.parameter_start,
                                                tags.parameter_end,
                                                chat_format::kEos,
                                                chat_format::kEndThink,
                                                ">\n",
                                                "\n",
                                                " name=\"a\"",
                                                " string=\"true\">",
                                                "<",
                                                "x",
                                                "\xFF"};
  std::string text;
  for (int i = *rc::gen::inRange(0, 25); i > 0; --i) text += *rc::gen::elementOf(pieces);
  for (const ThinkingMode mode : {ThinkingMode::kChat, ThinkingMode::kThinking}) {
    const Result<Message> parsed = parse_completion(text, mode, tags);
    RC_ASSERT((parsed || !parsed.error().empty()));
  }
}

}  // namespace
}  // namespace baleen
