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

TEST(Conversation, LinesThatClientsWriteForTheirProviderAreLeftOut) {
  const auto messages_request = [](const std::string& system) {
    return accepted(parse_messages, R"({"model": "m", "max_tokens": 1, "system": )" + system +
                                        R"(, "messages": [{"role": "user", "content": "q"}]})");
  };
  const std::string line = "x-anthropic-billing-header: cc_version=2.1; cch=a1b2c;";
  const ApiRequest blocks = messages_request(R"([{"type": "text", "text": ")" + line +
                                             R"("}, {"type": "text", "text": "You are careful."}])");
  EXPECT_EQ(blocks.messages[0].content, "You are careful.");
  EXPECT_EQ(blocks.ignored, std::vector<std::string>{"x-anthropic-billing-header"});
  EXPECT_EQ(messages_request("\"" + line + R"(\nYou are careful.\n\nx\n")").messages[0].content,
            "You are careful.\n\nx\n");
  EXPECT_EQ(messages_request("\"" + line + "\"").messages[0].content, "");
  // What comes through a proxy that speaks the other API.
  EXPECT_EQ(prompt(message("system", line + R"(\n\nYou are careful.)") + "," + message("user", "q")),
            kBos + "You are careful.<｜User｜>q" + kAsk);
  // A user may ask about such a line, and a system text may.
  EXPECT_EQ(prompt(message("system", "Say " + line) + "," + message("user", line)),
            kBos + "Say " + line + "<｜User｜>" + line + kAsk);
}

}  // namespace
}  // namespace baleen
