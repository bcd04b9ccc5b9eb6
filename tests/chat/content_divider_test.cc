// The divider says of a reply that arrives what the reader will say of it: where its content is.
#include "chat/content_divider.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "chat/format.h"
#include "read_reply.h"

namespace baleen {
namespace {

/// Content in brackets, everything else as it is.
std::string divided(const std::string& reply, ThinkingMode mode, bool may_call, CallEnforcement enforcement,
                    std::size_t piece_bytes) {
  ContentDivider divider(mode, may_call, enforcement);
  std::string shown;
  bool in_content = false;
  const auto add = [&](const std::vector<ReplyStretch>& stretches) {
    for (const ReplyStretch& stretch : stretches) {
      if (stretch.text.text.empty()) continue;
      if (stretch.is_content != in_content) shown += stretch.is_content ? "[" : "]";
      in_content = stretch.is_content;
      shown += stretch.text.text;
    }
  };
  for (const MarkedText& piece : test::pieces_of(with_marked_specials(reply), piece_bytes))
    add(divider.feed(piece));
  add(divider.finish());
  return shown + (in_content ? "]" : "");
}

std::string divided(const std::string& reply, ThinkingMode mode = ThinkingMode::kChat, bool may_call = true,
                    CallEnforcement enforcement = CallEnforcement::kFromToken) {
  const std::string whole = divided(reply, mode, may_call, enforcement, std::string::npos);
  for (const std::size_t piece_bytes : {1u, 2u, 7u})
    EXPECT_EQ(divided(reply, mode, may_call, enforcement, piece_bytes), whole);
  return whole;
}

constexpr const char* kBlock =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>";

TEST(ContentDivider, ReasoningIsNoContent) {
  EXPECT_EQ(divided("so</think>Hi", ThinkingMode::kThinking), "so</think>[Hi]");
  EXPECT_EQ(divided("never closed", ThinkingMode::kThinking), "never closed");
  EXPECT_EQ(divided(std::string("a") + kBlock + "</think>b", ThinkingMode::kThinking),
            std::string("a") + kBlock + "</think>[b]");
  EXPECT_EQ(divided("Hi"), "[Hi]");
  EXPECT_EQ(divided("a\n\n\n<b>\n\n"), "[a\n\n\n<b>\n\n]");
}

TEST(ContentDivider, BlocksAreNoContent) {
  EXPECT_EQ(divided(std::string("Hi.") + kBlock), std::string("[Hi.]") + kBlock);
  EXPECT_EQ(divided(kBlock), kBlock);
  EXPECT_EQ(divided(kBlock, ThinkingMode::kChat, true, CallEnforcement::kWholeBody), kBlock);
  EXPECT_EQ(divided("\n\n{}", ThinkingMode::kChat, true, CallEnforcement::kWholeBody), "[\n\n{}]");
  EXPECT_EQ(divided("\n\n<", ThinkingMode::kChat, true, CallEnforcement::kWholeBody), "\n\n<");
}

TEST(ContentDivider, TextAfterABlockThatNothingEnforcedIsContentAgain) {
  const std::string reply = std::string("Hi.") + kBlock + "\nObservation:";
  EXPECT_EQ(divided(reply, ThinkingMode::kChat, true, CallEnforcement::kNone),
            std::string("[Hi.]") + kBlock + "[\nObservation:]");
  const std::string open = "\n\n<｜DSML｜tool_calls>\n</｜DSML｜invoke> tool_calls> </｜DSML｜tool_call";
  EXPECT_EQ(divided(open, ThinkingMode::kChat, true, CallEnforcement::kNone), open);
}

TEST(ContentDivider, WithoutToolsABlockIsContent) {
  EXPECT_EQ(divided(std::string("Hi.") + kBlock, ThinkingMode::kChat, false),
            "[" + std::string("Hi.") + kBlock + "]");
}

RC_GTEST_PROP(ContentDivider, AgreesWithTheReader, ()) {
  using namespace chat_format;
  std::string reply;
  for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
    reply += *rc::gen::element<std::string>("a", " ", "\n", "\n\n", "\"", "é", "<", "</", "<b>", "```\n",
                                            "x: ", "｜D", "{", "</thin");
  }
  RC_PRE(!test::leaks_markup(reply));
  const bool thinks = *rc::gen::arbitrary<bool>(), calls = *rc::gen::arbitrary<bool>();
  const std::string text = (thinks ? "so\n\n" + std::string(kEndThink) : "") + reply + (calls ? kBlock : "");
  const ThinkingMode mode = thinks ? ThinkingMode::kThinking : ThinkingMode::kChat;
  ContentDivider divider(mode, true, CallEnforcement::kFromToken);
  std::string content, all;
  const auto add = [&](const std::vector<ReplyStretch>& stretches) {
    for (const ReplyStretch& stretch : stretches) {
      all += stretch.text.text;
      if (stretch.is_content) content += stretch.text.text;
    }
  };
  const std::size_t piece_bytes = *rc::gen::inRange<std::size_t>(1, 9);
  for (const MarkedText& piece : test::pieces_of(with_marked_specials(text), piece_bytes))
    add(divider.feed(piece));
  add(divider.finish());
  RC_ASSERT(all == text);
  const test::ReadReply read =
      test::read_reply(text, {{"f", {}}}, {.mode = mode, .enforcement = CallEnforcement::kFromToken});
  // Lines that only open a fence before a call are neither.
  RC_ASSERT(read.content == content || (calls && read.content.starts_with(content)));
}

}  // namespace
}  // namespace baleen
