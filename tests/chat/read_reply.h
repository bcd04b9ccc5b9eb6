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

namespace baleen::test {

struct ReadReply {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;  ///< names and arguments
  std::string raw_calls;
  std::size_t num_repairs = 0;
  bool operator==(const ReadReply&) const = default;
};

/// Adds parts and checks their order: a call begins, has arguments, ends, and nothing else comes between.
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
      }
    }
  }

  ReadReply finish(ReplyReader& reader, bool cut) {
    add(reader.finish(cut));
    EXPECT_FALSE(is_open_) << "a call did not end";
    EXPECT_EQ(reader.num_calls(), reply.calls.size());
    reply.raw_calls = reader.raw_calls();
    reply.num_repairs = reader.num_repairs();
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
};

inline ReadReply read_reply(std::string_view text, const std::vector<DeclaredTool>& tools,
                            ReplyShape shape = {}) {
  ReplyReader reader(shape.mode, tools);
  PartsCollector collector;
  for (std::size_t at = 0; at < text.size(); at += std::min(shape.piece_bytes, text.size())) {
    collector.add(reader.feed(text.substr(at, shape.piece_bytes)));
  }
  return collector.finish(reader, shape.cut);
}

/// As the clients' JSON libraries see it, which know nothing of Python.
inline bool is_json_object(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false).is_object();
}

inline bool leaks_markup(std::string_view text) {
  static constexpr std::string_view kSpecials[] = {"｜DSML｜",
                                                   "|DSML|invoke",
                                                   "|DSML|parameter",
                                                   "|DSML|tool_calls",
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
