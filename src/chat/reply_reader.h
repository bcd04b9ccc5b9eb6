/// A reply taken apart while it arrives, as a server needs it: reasoning, content, and tool calls. Never
/// fails: a block that a grammar enforced is read exactly as it stands; of any other what is unambiguous is
/// repaired, and what is not becomes text, without tags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "chat/call_tags.h"
#include "chat/message.h"
#include "chat/reply_part.h"

namespace baleen {

/// What held the model to the syntax of tool calls, outside its reasoning.
enum class CallEnforcement : std::uint8_t {
  kNone,
  kFromToken,  ///< a grammar, from the `｜DSML｜` token that opens a block to the block's end
  kWholeBody,  ///< a grammar, over all that is not reasoning: a block at once, or a value without any markup
};

class ReplyReader {
 public:
  /// The reply begins right after `<think>` (kThinking) or `</think>` (kChat). Without tools, a tool-call
  /// block is plain text. Copies the tools; `tags` are static.
  ReplyReader(ThinkingMode mode, std::span<const DeclaredTool> tools,
              CallEnforcement enforcement = CallEnforcement::kNone,
              const CallTags& tags = joined_call_tags());
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  /// What has become certain with this piece. `piece`: whole characters of valid UTF-8, control tokens whole
  /// and marked; only marked ones mean anything outside an enforced body. Once begun, a call is ended, unless
  /// the reply is cut within it. Calls that were not enforced come when the reply is over: only then is it
  /// certain what was meant.
  [[nodiscard]] std::vector<ReplyPart> feed(const MarkedText& piece);
  /// The reply is over. `cut`: by a limit, not by the model. An enforced call that is still open does not
  /// end, one that was not enforced is dropped.
  [[nodiscard]] std::vector<ReplyPart> finish(bool cut);

  /// The bytes from the blank line before the tool-call block to its end, exactly as the model wrote them, if
  /// the strict parser reads the same calls in them; empty otherwise. After `finish`.
  [[nodiscard]] std::string_view raw_calls() const;
  /// Those of `calls`.
  [[nodiscard]] std::size_t num_calls() const;
  /// Whether some of the reply was markup of calls, whatever became of it.
  [[nodiscard]] bool has_block() const;
  /// The calls that were given out and ended, without ids; their arguments are those parts joined.
  [[nodiscard]] std::span<const ToolCall> calls() const;
  /// Calls that were too damaged to be made.
  [[nodiscard]] std::size_t num_dropped_calls() const;
  /// Repairs made, for metrics.
  [[nodiscard]] std::size_t num_repairs() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace baleen
