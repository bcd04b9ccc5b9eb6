/// One item of a response's output while it grows: reasoning, a message or a function call.
#pragma once

#include "protocols/reply_json.h"

namespace baleen {

struct OutputItem {
  enum class Kind : std::uint8_t { kReasoning, kMessage, kCall } kind = Kind::kMessage;
  std::string id;
  std::string text;  ///< what it says; a call's arguments
  std::string call_id, name;
  std::string name_space;      ///< name of the group in which a client keeps the tool that is called
  bool is_whole_call = false;  ///< a call is not cut
  bool is_summary = false;     ///< reasoning is shown as its summary, not as its content
  std::string sealed;          ///< encrypted_content of reasoning that is complete
  ReplyJson logprobs = ReplyJson::array();

  /// As it is now. `status` is in_progress, completed or incomplete; in progress an item has no content yet.
  [[nodiscard]] ReplyJson json(std::string_view status) const;
  /// Its only content part, with `text` as given. Not of calls.
  [[nodiscard]] ReplyJson part(std::string_view part_text, ReplyJson part_logprobs) const;
  /// What its events are called: response.NAME.delta, response.NAME.done.
  [[nodiscard]] std::string_view event_name() const;
  /// And those of its part: response.NAME.added, response.NAME.done, with the part's place in this field.
  [[nodiscard]] std::string_view part_event_name() const {
    return is_summary ? "reasoning_summary_part" : "content_part";
  }
  [[nodiscard]] std::string_view part_index_name() const {
    return is_summary ? "summary_index" : "content_index";
  }
};

}  // namespace baleen
