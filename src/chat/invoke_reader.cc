#include "chat/invoke_reader.h"

#include <algorithm>
#include <utility>

#include "chat/format.h"
#include "chat/markup_scanner.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

}  // namespace

InvokeReader::InvokeReader(const Markup& opening, const DeclaredTool* tool, ReplyParts& parts)
    : tool_(tool), parts_(parts), name_(opening.name.value_or("")) {
  parts_.content.end_paragraph();
  if (tool_ == nullptr) {
    ++parts_.num_repairs;
    parts_.add_content(without_markup(name_));
    return;
  }
  if (!opening.is_ended) ++parts_.num_repairs;
  parts_.begin_call(tool_->name);
  arguments_.emplace(tool_->parameters);
  flush_arguments();
}

InvokeReader::Verdict InvokeReader::feed(const Markup& stretch, bool is_declared_invoke) {
  return place_ == Place::kBetween ? feed_between(stretch) : feed_value(stretch, is_declared_invoke);
}

void InvokeReader::finish(bool cut) {
  if (place_ != Place::kBetween) end_value(cut ? ArgumentWriter::End::kCut : ArgumentWriter::End::kImplied);
  ++parts_.num_repairs;
  end(Verdict::kOver, cut);
}

InvokeReader::Verdict InvokeReader::feed_between(const Markup& stretch) {
  if (stretch.kind == Kind::kText) {
    loose_text_ += stretch.raw;
    return Verdict::kGoesOn;
  }
  if (!arguments_) flush_loose_text();
  if (stretch.opens(Kind::kParameter)) {
    begin_value(stretch);
    return Verdict::kGoesOn;
  }
  if (stretch.closes(Kind::kInvoke)) return end(Verdict::kOver);
  ++parts_.num_repairs;
  if (stretch.opens(Kind::kInvoke)) {
    if (!stretch.name) return end(Verdict::kOver);  // its slash is missing
    const bool is_repeated = *stretch.name == name_ && arguments_ && !arguments_->has_keys();
    return is_repeated ? Verdict::kGoesOn : end(Verdict::kOverBeforeThis);
  }
  if (stretch.closes(Kind::kCalls) || stretch.kind == Kind::kEos) return end(Verdict::kOverBeforeThis);
  return Verdict::kGoesOn;
}

InvokeReader::Verdict InvokeReader::feed_value(const Markup& stretch, bool is_declared_invoke) {
  if (std::exchange(has_waiting_eos_, false)) add_value(chat_format::kEos);
  const bool is_slash_missing = stretch.opens(Kind::kParameter) && !stretch.name && !stretch.is_string;
  if (stretch.closes(Kind::kParameter) || is_slash_missing) {
    if (!stretch.is_ended || is_slash_missing) ++parts_.num_repairs;
    end_value(ArgumentWriter::End::kClosed);
    return Verdict::kGoesOn;
  }
  const bool is_end = stretch.kind == Kind::kEos && !arguments_;
  const bool closes_outer = is_end || stretch.closes(Kind::kInvoke) || stretch.closes(Kind::kCalls);
  const bool opens_next =
      stretch.opens(Kind::kInvoke) ? is_declared_invoke && is_line_start_ : begins_next_parameter(stretch);
  if (closes_outer || opens_next) {
    end_value(ArgumentWriter::End::kImplied);
    return feed_between(stretch);
  }
  if (stretch.kind == Kind::kEos) {
    has_waiting_eos_ = true;
    return Verdict::kGoesOn;
  }
  const bool is_repeated = stretch.opens(Kind::kParameter) && place_ == Place::kValue && arguments_ &&
                           arguments_->value_is_blank() && key_of(stretch) == arguments_->key();
  if (is_repeated || stretch.kind == Kind::kCut) {
    ++parts_.num_repairs;
  } else if (stretch.kind == Kind::kText || arguments_) {
    add_value(stretch.raw);
  }
  return Verdict::kGoesOn;
}

void InvokeReader::begin_value(const Markup& tag) {
  place_ = Place::kValue;
  is_line_start_ = true;
  const std::optional<std::string> key = key_of(tag);
  if (!arguments_) {
    parts_.add_content("\n" + (key ? without_markup(*key) + ": " : ""));
  } else if (key) {
    if (key != tag.name || !tag.is_ended) ++parts_.num_repairs;
    arguments_->begin_value(*key, tag.is_string);
  } else {
    ++parts_.num_repairs;
    place_ = Place::kLooseValue;
  }
  if (tag.is_empty) end_value(ArgumentWriter::End::kClosed);
}

void InvokeReader::end_value(ArgumentWriter::End end) {
  if (place_ == Place::kValue && arguments_) {
    arguments_->end_value(end);
    flush_arguments();
  }
  has_waiting_eos_ = false;
  place_ = Place::kBetween;
}

void InvokeReader::add_value(std::string_view text) {
  if (text.empty()) return;
  is_line_start_ = text.back() == '\n';
  if (!arguments_) {
    parts_.add_content(text);
  } else if (place_ == Place::kLooseValue) {
    loose_text_ += text;
  } else {
    arguments_->append(text);
    flush_arguments();
  }
}

InvokeReader::Verdict InvokeReader::end(Verdict verdict, bool cut) {
  if (arguments_) {
    const bool is_object =
        !cut && !arguments_->has_keys() && !is_blank(loose_text_) && arguments_->take_object(loose_text_);
    if (is_object) loose_text_.clear();
    arguments_->close();
    flush_arguments();
    parts_.num_repairs += arguments_->num_repairs();
    parts_.end_call();
  }
  flush_loose_text();
  parts_.content.end_paragraph();
  return verdict;
}

void InvokeReader::flush_arguments() {
  const std::string text = arguments_->take_text();
  if (!text.empty()) parts_.add_arguments(text);
}

void InvokeReader::flush_loose_text() {
  const std::string_view text = trimmed(loose_text_);
  if (!text.empty()) {
    ++parts_.num_repairs;
    parts_.note_markup();
    parts_.add_content("\n" + without_markup(text));
  }
  loose_text_.clear();
}

/// As declared, if white space is all that differs; without a name, the only property there is.
std::optional<std::string> InvokeReader::key_of(const Markup& tag) const {
  const PythonJson::Object* properties = tool_ == nullptr ? nullptr : declared_properties(tool_->parameters);
  if (properties == nullptr) return tag.name;
  if (!tag.name) return properties->size() == 1 ? std::optional(properties->front().name) : std::nullopt;
  const auto is_declared = [properties](std::string_view key) {
    return std::ranges::any_of(*properties,
                               [key](const PythonJson::Member& member) { return member.name == key; });
  };
  const std::string_view shorter = trimmed(*tag.name);
  return !is_declared(*tag.name) && is_declared(shorter) ? std::string(shorter) : tag.name;
}

/// Whether a tag within a value is the next parameter, the closing tag before it missing, rather than text: its key
/// is declared and new; where nothing is declared, it begins a line.
bool InvokeReader::begins_next_parameter(const Markup& tag) const {
  if (!tag.opens(Kind::kParameter)) return false;
  if (!arguments_) return true;
  const std::optional<std::string> key = key_of(tag);
  if (!key || arguments_->has_key(*key)) return false;
  const PythonJson::Object* properties = declared_properties(tool_->parameters);
  if (properties == nullptr) return is_line_start_;
  return std::ranges::any_of(*properties,
                             [&](const PythonJson::Member& member) { return member.name == *key; });
}

}  // namespace baleen
