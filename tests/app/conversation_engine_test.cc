// Turns of a conversation: a turn that continues computes only what is new, and replies as if it had computed
// all.
#include "app/conversation_engine.h"

#include <gtest/gtest.h>

#include "chat/render.h"
#include "engine/engine.h"

#include "tests/support/test_device.h"

namespace baleen {
namespace {

class Conversation : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = new Tokenizer(Tokenizer::load("models/stories")); }
  static void TearDownTestSuite() { delete tokenizer_; }

  static MarkedText prompt(const std::vector<Message>& messages, ThinkingMode mode = ThinkingMode::kChat) {
    RenderOptions options;
    options.thinking_mode = mode;
    return render_marked_prompt(messages, options).value();
  }
  static Message user(std::string text) { return {.role = Role::kUser, .content = std::move(text)}; }
  static Message assistant(std::string text) {
    return {.role = Role::kAssistant, .content = std::move(text)};
  }

  static GenerationRequest request(std::uint64_t seed = 3) {
    GenerationRequest wanted;
    wanted.sampling.seed = seed;
    wanted.stop_tokens = {1};
    wanted.max_tokens = 24;
    return wanted;
  }
  /// A reply, and how many prompt tokens were computed for it.
  struct Turn {
    Generated generated;
    std::int64_t computed = 0;
  };
  static Turn reply(ConversationEngine& conversation, const MarkedText& text) {
    std::int64_t computed = 0;
    auto generated = conversation.reply(
        text, request(), {.on_prompt = [&](std::int64_t done, std::int64_t) { computed = done; }});
    return {std::move(generated).value(), computed};
  }
  static Turn reply_anew(const MarkedText& text) {
    Engine engine("models/stories", options());
    ConversationEngine conversation(engine, *tokenizer_);
    return reply(conversation, text);
  }
  static EngineOptions options(std::int64_t cache_tokens = 1024) {
    return {
        .device = test::device(), .num_threads = 2, .max_batch_tokens = 256, .cache_tokens = cache_tokens};
  }

  static Tokenizer* tokenizer_;
};

Tokenizer* Conversation::tokenizer_ = nullptr;

TEST_F(Conversation, ContinuingGivesTheReplyOfStartingAnew) {
  Engine engine("models/stories", options());
  ConversationEngine conversation(engine, *tokenizer_);
  std::vector<Message> messages{user("Tell me a story about a fox.")};
  for (const char* next : {"And then?", "How does it end?", "Thank you."}) {
    const MarkedText text = prompt(messages);
    const Turn turn = reply(conversation, text);
    const Turn anew = reply_anew(text);
    EXPECT_EQ(turn.generated.tokens, anew.generated.tokens);
    EXPECT_EQ(turn.generated.text, anew.generated.text);
    EXPECT_EQ(conversation.length(),
              anew.computed + anew.generated.fed_tokens - anew.generated.prompt_tokens);
    if (messages.size() > 1) {
      EXPECT_LT(turn.computed, anew.computed / 2) << "nothing was kept";
    }
    messages.push_back(assistant(turn.generated.text));
    messages.push_back(user(next));
  }
}

TEST_F(Conversation, AnotherConversationStartsAnew) {
  Engine engine("models/stories", options());
  ConversationEngine conversation(engine, *tokenizer_);
  const MarkedText first = prompt({user("Tell me a story about a fox.")}), second = prompt({user("Hello!")});
  const Turn before = reply(conversation, first);
  EXPECT_EQ(reply(conversation, second).generated.tokens, reply_anew(second).generated.tokens);
  EXPECT_EQ(reply(conversation, first).generated.tokens, before.generated.tokens);
  // The same prompt again: what was seen goes beyond it.
  EXPECT_EQ(reply(conversation, first).generated.tokens, before.generated.tokens);
}

/// In thinking mode the format drops the reasoning of earlier turns: their prompts do not begin alike.
TEST_F(Conversation, DroppedReasoningStartsAnew) {
  Engine engine("models/stories", options());
  ConversationEngine conversation(engine, *tokenizer_);
  const std::vector<Message> asked{user("Tell me a story about a fox.")};
  const Turn first = reply(conversation, prompt(asked, ThinkingMode::kThinking));
  const MarkedText second =
      prompt({asked[0], assistant("A fox ran."), user("And then?")}, ThinkingMode::kThinking);
  const Turn turn = reply(conversation, second), anew = reply_anew(second);
  EXPECT_EQ(turn.generated.tokens, anew.generated.tokens);
  EXPECT_EQ(turn.computed, anew.computed);
  EXPECT_FALSE(first.generated.tokens.empty());
}

TEST_F(Conversation, AReplyCutOffByItsReaderCanBeContinued) {
  Engine engine("models/stories", options());
  ConversationEngine conversation(engine, *tokenizer_);
  std::vector<Message> messages{user("Tell me a story about a fox.")};
  std::size_t count = 0;
  const auto cut = conversation.reply(
      prompt(messages), request(),
      {.on_token = [&](const SampledToken&) { ++count; }, .cancelled = [&] { return count == 5; }});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut.value().end, ReplyEnd::kCancelled);
  messages.push_back(assistant(cut.value().text));
  messages.push_back(user("Go on."));
  EXPECT_EQ(reply(conversation, prompt(messages)).generated.tokens,
            reply_anew(prompt(messages)).generated.tokens);
}

TEST_F(Conversation, AnInterruptedPromptIsReadAgainFromWhereItWas) {
  Engine engine("models/stories",
                {.device = test::device(), .num_threads = 2, .max_batch_tokens = 8, .cache_tokens = 1024});
  ConversationEngine conversation(engine, *tokenizer_);
  const MarkedText text =
      prompt({user("Tell me a story about a fox and a hen and a bear who meet by the river.")});
  bool read_some = false;
  ASSERT_TRUE(conversation.reply(text, request(),
                                 {.on_prompt = [&](std::int64_t, std::int64_t) { read_some = true; },
                                  .cancelled = [&] { return read_some; }}));
  EXPECT_EQ(conversation.length(), 8);
  EXPECT_EQ(reply(conversation, text).generated.tokens, reply_anew(text).generated.tokens);
}

TEST_F(Conversation, OneThatIsTooLongGetsASentenceAndTheNextOneAnAnswer) {
  Engine engine("models/stories", options(256));
  ConversationEngine conversation(engine, *tokenizer_);
  std::string endless;
  for (int i = 0; i < 300; ++i) endless += "and on ";
  const auto refused = conversation.reply(prompt({user(endless)}), request(), {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("the context holds 256; /new starts another"), std::string::npos)
      << refused.error();
  EXPECT_EQ(reply(conversation, prompt({user("Hello!")})).generated.tokens,
            reply_anew(prompt({user("Hello!")})).generated.tokens);
  EXPECT_FALSE(conversation.reply({.text = "\xFF"}, request(), {}));
}

}  // namespace
}  // namespace baleen
