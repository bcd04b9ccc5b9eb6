#include "chat/reply_parts.h"

#include <utility>

namespace baleen {

using Kind = ReplyPart::Kind;

void ReplyParts::begin_call(const std::string& name) {
  parts_.push_back({Kind::kCallBegin, name, calls_.size()});
  calls_.push_back({"", name, ""});
  is_in_call_ = true;
}

void ReplyParts::add_arguments(std::string_view json) {
  calls_.back().arguments += json;
  add_text(Kind::kCallArguments, json);
}

void ReplyParts::end_call() {
  parts_.push_back({Kind::kCallEnd, "", calls_.size() - 1});
  is_in_call_ = false;
}

void ReplyParts::leave_call_cut() {
  if (std::exchange(is_in_call_, false)) calls_.pop_back();
}

void ReplyParts::drop_call(const std::string& name, std::string_view shown) {
  parts_.push_back({Kind::kCallDropped, name});
  ++num_dropped_;
  add_content(shown);
  end_content();
  content.begin_paragraph();
}

void ReplyParts::note_markup() {
  reasoning.note_markup();
  content.note_markup();
}

std::vector<ReplyPart> ReplyParts::take() { return std::exchange(parts_, {}); }

void ReplyParts::add_text(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!parts_.empty() && parts_.back().kind == kind) {
    parts_.back().text += text;
    return;
  }
  parts_.push_back({kind, std::string(text), kind == Kind::kCallArguments ? calls_.size() - 1 : 0});
}

}  // namespace baleen
