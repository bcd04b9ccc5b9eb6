/// One item of a response's output while it grows: reasoning, a message or a function call.
#pragma once

#include "protocols/reply_json.h"

namespace baleen {

struct OutputItem {
  enum class Kind : std::uint8_t { kReasoning, kMessage, kCall } kind = Kind::kMessage;
  std::string id;
  std::string text;  ///< of a call: its arguments
  std::string call_id, name;
  ReplyJson logprobs = ReplyJson::array();

  /// As it is now. `status` is in_progress, completed or incomplete; in progress an item has no content yet.
  [[nodiscard]] ReplyJson json(std::string_view status) const;
  /// Its only content part, with `text` as given. Not of calls.
  [[nodiscard]] ReplyJson part(std::string_view part_text, ReplyJson part_logprobs) const;
  /// What its events are called: response.NAME.delta, response.NAME.done.
  [[nodiscard]] std::string_view event_name() const;
};

}  // namespace baleen
