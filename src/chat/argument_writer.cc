#include "chat/argument_writer.h"

#include <utility>

#include "chat/json_repair.h"
#include "chat/white_space.h"

namespace baleen {
void ArgumentWriter::begin_value(std::string_view key, std::optional<bool> is_string) {
  key_ = key;
  is_string_ = is_string;
  types_ = argument_types(parameters_, key);
  is_dropped_ = !keys_.insert(key_).second;
  if (is_dropped_ || !is_string) ++num_repairs_;
  streams_ = is_string.value_or(types_.only_string()) && types_.allow(ArgumentTypes::kString);
  has_text_ = is_open_ = false;
  waiting_.clear();
}

void ArgumentWriter::append(std::string_view text) {
  has_text_ |= !is_blank(text);
  if (is_dropped_) return;
  waiting_ += text;
  if (!streams_ || !has_text_) return;
  write_string(std::string_view(waiting_).substr(0, waiting_.size() - (waiting_.ends_with('\n') ? 1 : 0)));
  waiting_.erase(0, waiting_.ends_with('\n') ? waiting_.size() - 1 : waiting_.size());
}

void ArgumentWriter::end_value(End end) {
  if (is_dropped_) return;
  if (end == End::kImplied) {
    ++num_repairs_;
    if (waiting_.ends_with('\n')) waiting_.pop_back();
  }
  if (streams_) {
    write_string(waiting_);
    out_ += '"';
  } else if (end == End::kCut) {
    ++num_repairs_;
  } else if (!is_blank(waiting_) || types_.only_string()) {
    const std::string value = json_of(waiting_);
    write_key();
    out_ += value;
  } else {
    ++num_repairs_;  // nothing is no value
  }
}

void ArgumentWriter::close() { out_ += '}'; }

bool ArgumentWriter::take_object(std::string_view text) {
  std::string json(trimmed(text));
  std::optional<PythonJson> value = read_strict_json(json);
  if (!value) {
    json = repaired_json(text).value_or("");
    value = read_strict_json(json);
  }
  if (!value || value->as_object() == nullptr) return false;
  ++num_repairs_;
  out_.append(json, 1, json.size() - 2);
  return true;
}

std::string ArgumentWriter::take_text() { return std::exchange(out_, {}); }

void ArgumentWriter::write_key() {
  if (num_written_++ > 0) out_ += ", ";
  out_ += quote_python_json(key_);
  out_ += ": ";
}

void ArgumentWriter::write_string(std::string_view text) {
  if (!is_open_) {
    write_key();
    out_ += '"';
    is_open_ = true;
  }
  const std::string quoted = quote_python_json(text);
  out_.append(quoted, 1, quoted.size() - 2);
}

/// The schema decides first, then the model's `string` attribute, then whether the text is JSON.
std::string ArgumentWriter::json_of(std::string_view text) {
  const std::optional<PythonJson> value = read_strict_json(text);
  const bool fits = value && types_.allow(*value);
  if (fits && is_string_ == false) return std::string(text);
  ++num_repairs_;
  if (fits) return std::string(trimmed(text));
  if (types_.only_string() && value && value->is_null()) return "null";
  if (!types_.allow(ArgumentTypes::kString) && value && value->as_string() != nullptr) {
    const std::string& within = *value->as_string();
    const std::optional<PythonJson> inner = read_strict_json(within);
    if (inner && types_.allow(*inner)) return std::string(trimmed(within));
  }
  const bool may_be_other = is_string_ == false || !types_.allow(ArgumentTypes::kString);
  if (may_be_other && !value) {
    const std::optional<std::string> repaired = repaired_json(text);
    if (repaired && types_.allow(*read_strict_json(*repaired))) return *repaired;
  }
  const bool was_meant_as_json = value && is_string_ == false && !types_.only_string();
  return was_meant_as_json ? std::string(trimmed(text)) : quote_python_json(text);
}

}  // namespace baleen
