/// What in a reply is content: the contract between those who know the reply's format and those who only
/// need to know which of its text a stop string may end.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/marked_text.h"

namespace baleen {

/// Neighbouring stretches of content are one text, across the control tokens in it; those with another
/// stretch between them are two.
struct ReplyStretch {
  MarkedText text;
  bool is_content =
      false;  ///< the client reads it as the reply's text: no reasoning, no tool call, no markup
};

/// Divides one reply while it arrives. All stretches joined are all pieces joined, in order.
class ReplyDivider {
 public:
  virtual ~ReplyDivider() = default;
  /// What has become certain with this piece: whole characters, control tokens whole and marked.
  [[nodiscard]] virtual std::vector<ReplyStretch> feed(const MarkedText& piece) = 0;
  /// The reply is over: what was held back.
  [[nodiscard]] virtual std::vector<ReplyStretch> finish() = 0;
};

/// Makes one for each reply. Empty: all of the reply is content.
using MakeReplyDivider = std::function<std::unique_ptr<ReplyDivider>()>;

}  // namespace baleen
