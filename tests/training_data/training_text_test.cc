// What a record trains: text between BOS and the end token, and of conversations the assistant's replies.
#include "training_data/training_text.h"

#include <gtest/gtest.h>

#include <string>

namespace baleen {
namespace {

const Tokenizer& stories() {
  static const Tokenizer kTokenizer = Tokenizer::load("models/stories");
  return kTokenizer;
}

CorpusRecord json(std::string line) { return {std::move(line), CorpusFormat::kJsonLines, 0, 1}; }

/// The bytes that are targets, those that are not in square brackets.
std::string shown(const CorpusRecord& record, const RecordRules& rules = {}) {
  const Result<TrainingText> text = training_text_of(record, rules);
  if (!text) return "failure: " + text.error();
  const Result<TokenDocument> encoded = encode_document(stories(), text.value());
  if (!encoded) return "failure: " + encoded.error();
  const TokenDocument& document = encoded.value();
  std::string result;
  bool target = true;
  for (std::size_t i = 0; i < document.tokens.size(); ++i) {
    if ((document.is_target[i] != 0) != target) result += target ? "[" : "]";
    target = document.is_target[i] != 0;
    result += stories().bytes_of(document.tokens[i]);
  }
  return result + (target ? "" : "]");
}

constexpr const char* kBos = "<｜begin▁of▁sentence｜>";
constexpr const char* kEos = "<｜end▁of▁sentence｜>";

TEST(TrainingText, OfATextIsAllButTheFirstToken) {
  EXPECT_EQ(shown(json(R"({"text": "A fox."})")), std::string("[") + kBos + "]A fox." + kEos);
  EXPECT_EQ(shown({"A fox.\n", CorpusFormat::kText, 0, 0}), std::string("[") + kBos + "]A fox.\n" + kEos);
  EXPECT_EQ(shown(json(R"({"story": "A fox."})"), {.field = "story"}),
            std::string("[") + kBos + "]A fox." + kEos);
}

TEST(TrainingText, BytesThatAreNoUtf8AreCountedInTheText) {
  const Result<TrainingText> text = training_text_of({"A \xFF.", CorpusFormat::kText, 0, 0}, {});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error(), "byte 2 is not UTF-8 (0xFF); is this text?");
}

TEST(TrainingText, WhatATextSpellsIsNoControlToken) {
  const Result<TrainingText> text = training_text_of(json(R"({"text": "<think>"})"), {});
  ASSERT_TRUE(text.ok());
  const Result<TokenDocument> document = encode_document(stories(), text.value());
  ASSERT_TRUE(document.ok());
  EXPECT_GT(document.value().tokens.size(), 3u);
  EXPECT_EQ(document.value().num_text_bytes, 7);
  for (const TokenId token : document.value().tokens) EXPECT_NE(token, stories().id_of("<think>"));
}

TEST(TrainingText, OfAConversationIsWhatTheAssistantWrote) {
  const std::string bos = kBos, eos = kEos;
  EXPECT_EQ(shown(json(R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                     {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"},
                     {"role": "assistant", "content": "B"}]})")),
            "[" + bos + "S<｜User｜>U<｜Assistant｜></think>]A" + eos +
                "[<｜User｜>V<｜Assistant｜></think>]B" + eos);
}

TEST(TrainingText, EffortsAreThoseOfTheProfile) {
  const CorpusRecord record = json(R"({"messages": [{"role": "user", "content": "U"},
      {"role": "assistant", "content": "A"}], "thinking_mode": "thinking", "reasoning_effort": "low"})");
  EXPECT_EQ(shown(record),
            "failure: reasoning_effort: expected high or max (prompt profile preview), found "
            "\"low\"");
  EXPECT_EQ(shown(record, {.prompt_profile = PromptProfile::kOfficial}),
            std::string("[") + kBos + "<｜User｜>U<｜Assistant｜><think>]</think>A" + kEos);
}

TEST(TrainingText, InThinkingModeTheReasoningAndItsEndAreTargets) {
  const std::string bos = kBos, eos = kEos;
  const std::string messages = R"("messages": [{"role": "user", "content": "U"},
      {"role": "assistant", "reasoning_content": "R", "content": "A"}, {"role": "user", "content": "V"},
      {"role": "assistant", "reasoning_content": "Q", "content": "B"}])";
  // The reasoning of earlier turns is left out, as in the prompts that the model will see.
  const std::string expected = "[" + bos + "<｜User｜>U<｜Assistant｜></think>]A" + eos +
                               "[<｜User｜>V<｜Assistant｜><think>]Q</think>B" + eos;
  EXPECT_EQ(shown(json("{" + messages + R"(, "thinking_mode": "thinking"})")), expected);
  EXPECT_EQ(shown(json("{" + messages + "}"), {.thinking_mode = ThinkingMode::kThinking}), expected);
  EXPECT_EQ(shown(json("{" + messages + R"(, "thinking_mode": "thinking", "drop_thinking": false})")),
            "[" + bos + "<｜User｜>U<｜Assistant｜><think>]R</think>A" + eos +
                "[<｜User｜>V<｜Assistant｜><think>]Q</think>B" + eos);
}

TEST(TrainingText, ToolCallsAreTargetsAndTheirResultsAreNot) {
  const std::string text = shown(json(R"({"messages": [{"role": "user", "content": "U"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "RESULT"},
      {"role": "assistant", "content": "done"}]})"));
  EXPECT_NE(text.find("]\n\n<｜DSML｜tool_calls>"), std::string::npos) << text;
  EXPECT_NE(text.find(std::string(kEos) + "[<｜User｜><tool_result>RESULT</tool_result>"), std::string::npos)
      << text;
  EXPECT_NE(text.find("]done"), std::string::npos) << text;
}

TEST(TrainingText, SaysWhatIsWrongWithARecord) {
  EXPECT_EQ(shown(json("[1]")), "failure: expected one JSON object a line, found an array");
  EXPECT_NE(shown(json("{")).find("failure: not a line of JSON"), std::string::npos);
  EXPECT_NE(shown(json(R"({"txt": "A"})")).find("no \"text\" here"), std::string::npos);
  EXPECT_NE(shown(json(R"({"text": 7})")).find("expected a string, found a number"), std::string::npos);
  EXPECT_EQ(shown(json(R"({"text": ""})")), "failure: the text is empty");
  EXPECT_NE(shown(json(R"({"messages": [{"role": "user", "content": "U"}]})")).find("no assistant message"),
            std::string::npos);
  EXPECT_NE(shown(json(R"({"messages": [{"role": 3}]})")).find("messages[0]"), std::string::npos);
}

}  // namespace
}  // namespace baleen
