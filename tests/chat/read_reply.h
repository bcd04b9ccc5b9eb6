/// A reply read by ReplyReader, put together again; and what must hold of its parts whatever the reply was.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "chat/message.h"
#include "chat/reply_reader.h"
#include "chat/special_strings.h"

namespace baleen::test {

struct ReadReply {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;  ///< names and arguments
  std::string raw_calls;
  std::size_t num_repairs = 0;
  std::size_t num_dropped = 0;
  bool operator==(const ReadReply&) const = default;
};

/// Adds parts and checks their order: a call begins, has arguments, ends unless the reply is cut, and
/// nothing else comes between.
class PartsCollector {
 public:
  void add(const std::vector<ReplyPart>& parts) {
    for (const ReplyPart& part : parts) {
      EXPECT_FALSE(find_invalid_utf8(part.text)) << part.text;
      const bool is_of_call =
          part.kind == ReplyPart::Kind::kCallArguments || part.kind == ReplyPart::Kind::kCallEnd;
      EXPECT_EQ(is_open_, is_of_call);
      EXPECT_TRUE(!is_of_call || part.call_idx + 1 == reply.calls.size());
      switch (part.kind) {
        case ReplyPart::Kind::kReasoning:
          reply.reasoning += part.text;
          break;
        case ReplyPart::Kind::kContent:
          reply.content += part.text;
          break;
        case ReplyPart::Kind::kCallBegin:
          EXPECT_EQ(part.call_idx, reply.calls.size());
          reply.calls.emplace_back(part.text, "");
          is_open_ = true;
          break;
        case ReplyPart::Kind::kCallArguments:
          reply.calls.back().second += part.text;
          break;
        case ReplyPart::Kind::kCallEnd:
          is_open_ = false;
          break;
        case ReplyPart::Kind::kCallDropped:
          break;
      }
    }
  }

  ReadReply finish(ReplyReader& reader, bool cut) {
    add(reader.finish(cut));
    EXPECT_TRUE(!is_open_ || cut) << "a call did not end";
    EXPECT_EQ(reader.num_calls() + (is_open_ ? 1 : 0), reply.calls.size());
    EXPECT_TRUE(reader.has_block() || reply.calls.empty());
    reply.raw_calls = reader.raw_calls();
    reply.num_repairs = reader.num_repairs();
    reply.num_dropped = reader.num_dropped_calls();
    return reply;
  }

  ReadReply reply;

 private:
  bool is_open_ = false;
};

struct ReplyShape {
  ThinkingMode mode = ThinkingMode::kChat;
  bool cut = false;
  std::size_t piece_bytes = std::string::npos;
  CallEnforcement enforcement = CallEnforcement::kNone;
  const CallTags* tags = &joined_call_tags();
};

/// In pieces of whole characters and whole tokens, each at least that long.
inline std::vector<MarkedText> pieces_of(const MarkedText& reply, std::size_t piece_bytes) {
  std::vector<MarkedText> pieces(1);
  const auto next = [&]() -> MarkedText& {
    if (pieces.back().text.size() >= piece_bytes) pieces.emplace_back();
    return pieces.back();
  };
  for_each_stretch(
      reply,
      [&](std::string_view text) {
        while (!text.empty()) {
          const std::size_t size = next_utf8(text).size;
          next().add_text(text.substr(0, size));
          text.remove_prefix(size);
        }
      },
      [&](std::string_view token) { next().add_control(token); });
  return pieces;
}

inline ReadReply read_reply(const MarkedText& reply, const std::vector<DeclaredTool>& tools,
                            ReplyShape shape = {}) {
  ReplyReader reader(shape.mode, tools, shape.enforcement, *shape.tags);
  PartsCollector collector;
  for (const MarkedText& piece : pieces_of(reply, shape.piece_bytes)) collector.add(reader.feed(piece));
  return collector.finish(reader, shape.cut);
}

/// Every special string in `text` is the token.
inline ReadReply read_reply(std::string_view text, const std::vector<DeclaredTool>& tools,
                            ReplyShape shape = {}) {
  return read_reply(with_marked_specials(text), tools, shape);
}

/// As the clients' JSON libraries see it, which know nothing of Python.
inline bool is_json_object(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false).is_object();
}

inline bool leaks_markup(std::string_view text) {
  static constexpr std::string_view kSpecials[] = {"｜DSML｜",
                                                   "<think>",
                                                   "</think>",
                                                   "<｜User｜>",
                                                   "<｜Assistant｜>",
                                                   "<｜end▁of▁sentence｜>",
                                                   "<｜begin▁of▁sentence｜>",
                                                   "<｜latest_reminder｜>",
                                                   "<｜title｜>"};
  return std::ranges::any_of(
      kSpecials, [text](std::string_view special) { return text.find(special) != std::string_view::npos; });
}

}  // namespace baleen::test
