/// What a reader of a reply gives out, joined and numbered.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/reply_part.h"
#include "chat/reply_text.h"

namespace baleen {

/// Collects parts until they are taken; neighbours of one kind become one part. Text comes without markup.
class ReplyParts {
 public:
  void add_reasoning(std::string_view text) { add_text(ReplyPart::Kind::kReasoning, reasoning.add(text)); }
  void add_content(std::string_view text) { add_text(ReplyPart::Kind::kContent, content.add(text)); }
  void end_reasoning() { add_text(ReplyPart::Kind::kReasoning, reasoning.finish()); }
  void end_content() { add_text(ReplyPart::Kind::kContent, content.finish()); }

  void begin_call(const std::string& name);
  void add_arguments(std::string_view json);
  void end_call();
  /// The reply is over: a call that has not ended is none of `calls`.
  void leave_call_cut();
  /// Says that a call is not made, and shows it as a paragraph of the content.
  void drop_call(const std::string& name, std::string_view shown);

  /// Markup was taken out of the text here.
  void note_markup();

  [[nodiscard]] std::vector<ReplyPart> take();
  /// Those that ended, or may yet.
  [[nodiscard]] std::span<const ToolCall> calls() const { return calls_; }
  [[nodiscard]] std::size_t num_dropped() const { return num_dropped_; }

  ReplyText reasoning;
  ReplyText content;
  std::size_t num_repairs = 0;

 private:
  void add_text(ReplyPart::Kind kind, std::string_view text);

  std::vector<ReplyPart> parts_;
  std::vector<ToolCall> calls_;
  bool is_in_call_ = false;
  std::size_t num_dropped_ = 0;
};

}  // namespace baleen
