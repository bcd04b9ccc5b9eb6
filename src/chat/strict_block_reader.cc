#include "chat/strict_block_reader.h"

#include <algorithm>
#include <utility>

#include "chat/call_check.h"
#include "chat/format.h"
#include "chat/python_json.h"
#include "chat/tag.h"

namespace baleen {
namespace {

constexpr std::string_view kTagEnd = "\">\n";
constexpr std::string_view kKeyEnd = "\" string=\"";
constexpr std::string_view kFlagEnd = "\">";

/// Bytes at the end of `text` that `literal` may begin with.
std::size_t begun_bytes(std::string_view text, std::string_view literal) {
  for (std::size_t size = std::min(text.size(), literal.size() - 1); size > 0; --size) {
    if (text.ends_with(literal.substr(0, size))) return size;
  }
  return 0;
}

std::string escaped(std::string_view text) {
  const std::string quoted = quote_python_json(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

void StrictBlockReader::feed(std::string_view text) {
  pending_ += text;
  while (step()) {
  }
}

/// False: more text decides.
bool StrictBlockReader::step() {
  switch (place_) {
    case Place::kHead:
      return skip(std::string_view(tags_.calls_opening).substr(chat_format::kBlockStart.size()),
                  Place::kBetweenInvokes);
    case Place::kBetweenInvokes:
      return read_between_invokes();
    case Place::kName: {
      const std::optional<std::string> name = take_until(kTagEnd);
      if (!name) return false;
      begin_call(*name);
      place_ = Place::kBetweenParameters;
      return true;
    }
    case Place::kBetweenParameters:
      return read_between_parameters();
    case Place::kKey: {
      std::optional<std::string> key = take_until(kKeyEnd);
      if (!key) return false;
      key_ = *std::move(key);
      place_ = Place::kFlag;
      return true;
    }
    case Place::kFlag: {
      const std::optional<std::string> flag = take_until(kFlagEnd);
      if (!flag) return false;
      place_ = *flag == "true" ? Place::kString : Place::kJson;
      is_passed_over_ = keys_.contains(key_);
      if (place_ == Place::kString) begin_argument();
      if (place_ == Place::kString && !is_passed_over_) give("\"");
      return true;
    }
    case Place::kString:
      return read_string();
    case Place::kJson: {
      const std::optional<std::string> json = take_until(tags_.parameter_closing);
      if (!json) return false;
      begin_argument();
      if (!is_passed_over_) give(*json);
      place_ = Place::kBetweenParameters;
      return true;
    }
    case Place::kEnd:
      break;
  }
  return false;
}

bool StrictBlockReader::read_between_invokes() {
  if (skip(tags_.invoke_opening, Place::kName)) return true;
  return skip(tags_.calls_end, Place::kEnd);
}

bool StrictBlockReader::read_between_parameters() {
  if (skip(tags_.parameter_opening, Place::kKey)) return true;
  if (skip(tags_.invoke_closing, Place::kBetweenInvokes)) {
    end_call();
    return true;
  }
  return skip("\n", Place::kBetweenParameters);  // of a call without arguments
}

bool StrictBlockReader::read_string() {
  const std::size_t end = pending_.find(tags_.parameter_closing);
  const bool is_whole = end != std::string::npos;
  const std::size_t size = is_whole ? end : pending_.size() - begun_bytes(pending_, tags_.parameter_closing);
  if (!is_passed_over_) give(escaped(std::string_view(pending_).substr(0, size)));
  pending_.erase(0, is_whole ? size + tags_.parameter_closing.size() : size);
  if (!is_whole) return false;
  if (!is_passed_over_) give("\"");
  place_ = Place::kBetweenParameters;
  return true;
}

bool StrictBlockReader::skip(std::string_view literal, Place next) {
  if (!pending_.starts_with(literal)) return false;
  pending_.erase(0, literal.size());
  place_ = next;
  return true;
}

std::optional<std::string> StrictBlockReader::take_until(std::string_view end) {
  const std::size_t at = pending_.find(end, num_searched_ - std::min(num_searched_, end.size()));
  num_searched_ = at == std::string::npos ? pending_.size() : 0;
  if (at == std::string::npos) return std::nullopt;
  std::string taken = pending_.substr(0, at);
  pending_.erase(0, at + end.size());
  return taken;
}

void StrictBlockReader::begin_call(const std::string& name) {
  keys_.clear();
  const auto tool = std::ranges::find(tools_, name, &DeclaredTool::name);
  kept_.emplace(KeptCall{.name = name, .missing = {}});
  if (tool != tools_.end() && !tool->is_held) kept_->missing = required_parameters(tool->parameters);
  give("{");
}

void StrictBlockReader::begin_argument() {
  if (is_passed_over_) return;
  if (!keys_.empty()) give(", ");
  keys_.insert(key_);
  if (kept_) kept_->missing.erase(key_);
  give(quote_python_json(key_) + ": ");
}

void StrictBlockReader::give(std::string_view json) {
  if (!kept_) return parts_.add_arguments(json);
  kept_->arguments += json;
  if (!kept_->missing.empty()) return;
  const KeptCall call = *std::exchange(kept_, std::nullopt);
  parts_.begin_call(call.name);
  parts_.add_arguments(call.arguments);
}

void StrictBlockReader::end_call() {
  if (kept_) return drop_kept_call();
  parts_.add_arguments("}");
  parts_.end_call();
}

void StrictBlockReader::drop_kept_call() {
  const KeptCall call = *std::exchange(kept_, std::nullopt);
  parts_.drop_call(call.name, without_markup(call.name + "\n" + call.arguments));
}

}  // namespace baleen
