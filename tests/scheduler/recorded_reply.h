/// A sink that keeps what it hears, and checks that it hears it in order.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/request.h"
#include "tests/scheduler/fake_model.h"

namespace baleen {

class RecordedReply : public ReplySink {
 public:
  void piece(const ReplyPiece& piece) override {
    EXPECT_FALSE(summary) << "a piece after the end";
    EXPECT_FALSE(piece.tokens.empty() && piece.text.text.empty());
    for (const ReplyToken& token : piece.tokens) tokens.push_back(token);
    text += piece.text.text;
    if (on_piece) on_piece();
  }
  void finished(const ReplySummary& of_reply) override {
    EXPECT_FALSE(summary) << "finished twice";
    summary = of_reply;
    if (on_finished) on_finished();
  }

  [[nodiscard]] std::vector<TokenId> ids() const {
    std::vector<TokenId> all;
    for (const ReplyToken& token : tokens) all.push_back(token.id);
    return all;
  }

  std::vector<ReplyToken> tokens;
  std::string text;
  std::optional<ReplySummary> summary;
  std::function<void()> on_piece, on_finished;
};

inline void expect_reply(const RecordedReply& got, const ExpectedReply& want) {
  ASSERT_TRUE(got.summary.has_value());
  EXPECT_EQ(got.summary->end, want.end) << got.summary->error;
  EXPECT_EQ(got.ids(), want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.summary->stop_string, want.stop_string);
  EXPECT_EQ(got.summary->thinking_end, want.thinking_end);
  EXPECT_EQ(got.summary->reply_tokens, std::ssize(want.tokens) + (want.end == ReplyEnd::kStopToken ? 1 : 0));
}

}  // namespace baleen
