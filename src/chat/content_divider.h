/// Where a chat reply's content is, while it arrives: for stop strings, which end a reply by its content
/// alone.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/reply_divider.h"
#include "chat/call_tags.h"
#include "chat/message.h"
#include "chat/reply_reader.h"
#include "chat/reply_text.h"

namespace baleen {

/// Content is what `ReplyReader` gives out as such: not reasoning, nor a tool-call block with the blank
/// line and `<` before it, which wait until it is certain which of both they are. Of a block that nothing
/// enforced all is markup up to its closing tag, also text that the reader, when it has the whole block,
/// finds between its calls.
class ContentDivider final : public ReplyDivider {
 public:
  /// The reply begins right after `<think>` (kThinking) or `</think>` (kChat). `may_call`: false when no
  /// tools may be called, so that a block is content.
  ContentDivider(ThinkingMode mode, bool may_call, CallEnforcement enforcement = CallEnforcement::kNone,
                 const CallTags& tags = joined_call_tags());

  [[nodiscard]] std::vector<ReplyStretch> feed(const MarkedText& piece) override;
  [[nodiscard]] std::vector<ReplyStretch> finish() override;

 private:
  enum class Place { kReasoning, kBodyBegin, kContent, kBlock };

  void read_text(std::string_view text);
  void read_control(std::string_view token);
  [[nodiscard]] Place body_place() const;
  void read_body_begin();
  void read_block(std::string_view text);
  void give_text(std::string_view text, bool is_content);
  void give_control(std::string_view token, bool is_content);
  MarkedText& stretch(bool is_content);

  bool may_call_;
  std::string block_name_;  ///< how the block's closing tag ends behind its token
  CallEnforcement enforcement_;
  Place place_;
  MarkedText held_;         ///< kBodyBegin: an enforced body that may still be calls
  ReplyText content_;       ///< kContent: what is content
  std::string block_tail_;  ///< kBlock: the last two bytes of the block
  /// kBlock, a closing tag: how many bytes are the block's name so far.
  std::optional<std::size_t> num_name_;
  std::vector<ReplyStretch> stretches_;
};

/// Of a conversation's replies: `mode` and so on as for the class.
[[nodiscard]] MakeReplyDivider content_divider(ThinkingMode mode, bool may_call,
                                               CallEnforcement enforcement = CallEnforcement::kNone,
                                               const CallTags& tags = joined_call_tags());

}  // namespace baleen
