/// A reply taken apart while it arrives, as a server needs it: reasoning, content, and tool calls whose arguments
/// stream as JSON. Never fails: where `parse_completion` would refuse, what is unambiguous is repaired and the rest
/// becomes plain text, without tags.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/reply_part.h"

namespace baleen {

class ReplyReader {
 public:
  /// The reply begins right after `<think>` (kThinking) or `</think>` (kChat). Without tools, a tool-call block is
  /// plain text. Copies the tools.
  ReplyReader(ThinkingMode mode, std::span<const DeclaredTool> tools);
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  /// What has become certain with this piece. A call begins only when its name is known to be declared, and once
  /// begun it is ended.
  [[nodiscard]] std::vector<ReplyPart> feed(std::string_view piece);
  /// The reply is over. `cut`: by a limit, not by the model: a call still open is closed as far as it came, so that
  /// its arguments are JSON.
  [[nodiscard]] std::vector<ReplyPart> finish(bool cut);

  /// The bytes from the blank line before the tool-call block to its end, exactly as the model wrote them, if every
  /// call in it was read without repair; empty otherwise. After `finish`.
  [[nodiscard]] std::string_view raw_calls() const;
  [[nodiscard]] std::size_t num_calls() const;
  /// The calls that were given out, without ids; their arguments are those parts joined.
  [[nodiscard]] std::span<const ToolCall> calls() const;
  /// Repairs made, for metrics.
  [[nodiscard]] std::size_t num_repairs() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace baleen
