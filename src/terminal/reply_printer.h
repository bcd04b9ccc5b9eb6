/// Shows a chat reply as it arrives: reasoning dimmed and apart from the answer, tool calls as the model
/// wrote them. A terminal gets control characters as `\x1B`, since a reply may repeat what a stranger wrote;
/// files and pipes get the bytes.
#pragma once

#include <cstdio>
#include <string_view>

#include "chat/stream_splitter.h"
#include "terminal/line_reader.h"

namespace baleen {

class ReplyPrinter {
 public:
  /// The reply begins right after `<think>` (kThinking) or `</think>` (kChat).
  ReplyPrinter(ThinkingMode mode, std::FILE* out, const CallTags& tags = joined_call_tags());

  void feed(std::string_view text);
  /// Ends the last line.
  void finish();

 private:
  void show(const StreamSplitter::Delta& delta);

  StreamSplitter splitter_;
  std::FILE* out_;
  TextStyle style_;
  bool is_terminal_;
  bool in_reasoning_ = false;
  bool at_line_start_ = true;
};

}  // namespace baleen
