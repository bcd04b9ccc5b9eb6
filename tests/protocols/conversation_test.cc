// How conversations of an API are fitted to the chat format, down to the prompt that comes out.
#include "chat/render.h"
#include "request_cases.h"

namespace baleen {
namespace {

std::string prompt(const std::string& messages, const std::string& more = "") {
  const ApiRequest request =
      accepted(parse_chat_completions, R"({"model": "m", "messages": [)" + messages + "]" + more + "}");
  return render_prompt(request.messages,
                       {.thinking_mode = request.thinking_mode, .reasoning_effort = request.effort})
      .value();
}

std::string message(const std::string& role, const std::string& content) {
  return R"({"role": ")" + role + R"(", "content": ")" + content + "\"}";
}

const std::string kBos = "<｜begin▁of▁sentence｜>", kAsk = "<｜Assistant｜></think>";

TEST(Conversation, NeighbouringSystemMessagesAreOne) {
  EXPECT_EQ(prompt(message("system", "a") + "," + message("developer", "b") + "," + message("user", "q")),
            kBos + "a\n\nb<｜User｜>q" + kAsk);
}

TEST(Conversation, SystemAfterUserIsUserText) {
  EXPECT_EQ(prompt(message("user", "q") + "," + message("system", "rules")),
            kBos + "<｜User｜>q\n\nrules" + kAsk);
  EXPECT_EQ(prompt(message("user", "q") + "," + message("system", "rules") + "," + message("user", "p")),
            kBos + "<｜User｜>q\n\nrules\n\np" + kAsk);
}

TEST(Conversation, SystemAfterAssistantStays) {
  EXPECT_EQ(prompt(message("user", "q") + "," + message("assistant", "a") + "," + message("system", "s") +
                   "," + message("user", "p")),
            kBos + "<｜User｜>q" + kAsk + "a<｜end▁of▁sentence｜>s<｜User｜>p" + kAsk);
}

TEST(Conversation, ALoneSystemMessageIsAsked) {
  EXPECT_EQ(prompt(message("system", "s")), kBos + "<｜User｜>s" + kAsk);
}

TEST(Conversation, ToolsMakeASystemMessage) {
  const std::string text =
      prompt(message("user", "q"), R"(, "tools": [{"type": "function", "function": {"name": "f"}}])");
  EXPECT_TRUE(text.starts_with(kBos + "\n\n## Tools\n")) << text;
  EXPECT_NE(text.find("\n{\"name\": \"f\"}\n"), std::string::npos);
}

TEST(Conversation, AContinuedMessageHasNoEnd) {
  EXPECT_EQ(prompt(message("user", "q") + R"(, {"role": "assistant", "content": "Once", "prefix": true})"),
            kBos + "<｜User｜>q" + kAsk + "Once");
}

TEST(Conversation, HistoryWithoutReasoningIsAccepted) {
  const std::string history =
      message("user", "q") + "," + message("assistant", "a") + "," + message("user", "p");
  EXPECT_EQ(prompt(history, R"(, "thinking": {"type": "enabled"})"),
            kBos + "<｜User｜>q" + kAsk + "a<｜end▁of▁sentence｜><｜User｜>p<｜Assistant｜><think>");
}

}  // namespace
}  // namespace baleen
