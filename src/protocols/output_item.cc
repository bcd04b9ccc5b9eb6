#include "protocols/output_item.h"

namespace baleen {

ReplyJson OutputItem::json(std::string_view status) const {
  ReplyJson content = ReplyJson::array();
  if (status != "in_progress" && kind != Kind::kCall) content.push_back(part(text, logprobs));
  switch (kind) {
    case Kind::kReasoning:
      return {{"id", id},
              {"type", "reasoning"},
              {"status", status},
              {"summary", is_summary ? content : ReplyJson::array()},
              {"content", is_summary ? ReplyJson::array() : content},
              {"encrypted_content", sealed.empty() ? ReplyJson() : ReplyJson(sealed)}};
    case Kind::kMessage:
      return {{"id", id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", std::move(content)}};
    case Kind::kCall:
      break;
  }
  ReplyJson call = {{"id", id},     {"type", "function_call"}, {"status", status}, {"call_id", call_id},
                    {"name", name}, {"arguments", text}};
  if (!name_space.empty()) call["namespace"] = name_space;
  return call;
}

ReplyJson OutputItem::part(std::string_view part_text, ReplyJson part_logprobs) const {
  if (kind == Kind::kReasoning) {
    return {{"type", is_summary ? "summary_text" : "reasoning_text"}, {"text", part_text}};
  }
  return {{"type", "output_text"},
          {"annotations", ReplyJson::array()},
          {"logprobs", std::move(part_logprobs)},
          {"text", part_text}};
}

std::string_view OutputItem::event_name() const {
  switch (kind) {
    case Kind::kReasoning:
      return is_summary ? "reasoning_summary_text" : "reasoning_text";
    case Kind::kMessage:
      return "output_text";
    case Kind::kCall:
      break;
  }
  return "function_call_arguments";
}

}  // namespace baleen
