#include "protocols/reply_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace baleen {
namespace {

ReplyJson token_json(const TokenText& token) {
  ReplyJson bytes = ReplyJson::array();
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", token.bytes}, {"logprob", printable_logprob(token.logprob)}, {"bytes", std::move(bytes)}};
}

/// Characters at which some readers of lines cut, though neither JSON nor events end a line there. In JSON
/// they stand in strings alone.
std::string without_line_separators(std::string json) {
  static constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"\u0085", "\\u0085"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}};
  static constexpr std::string_view kFirstBytes = "\xC2\xE2";
  std::string escaped;
  std::size_t done = 0;
  for (std::size_t at = json.find_first_of(kFirstBytes); at != std::string::npos;
       at = json.find_first_of(kFirstBytes, at + 1)) {
    for (const auto& [separator, escape] : kEscapes) {
      if (!std::string_view(json).substr(at).starts_with(separator)) continue;
      escaped.append(json, done, at - done).append(escape);
      done = at + separator.size();
    }
  }
  if (done == 0) return json;
  escaped.append(json, done);
  return escaped;
}

}  // namespace

std::string json_text(const ReplyJson& json) {
  return without_line_separators(json.dump(-1, ' ', false, ReplyJson::error_handler_t::replace));
}

ReplyJson to_reply_json(const PythonJson& value) {
  if (const bool* flag = value.as_bool()) return *flag;
  if (const std::string* text = value.as_string()) return *text;
  if (const PythonJson::Number* number = value.as_number()) {
    Result<ReplyJson> parsed = parse_ordered_json(number->text);
    return parsed ? std::move(parsed).value() : ReplyJson();  // NaN and the like
  }
  if (const PythonJson::Array* array = value.as_array()) {
    ReplyJson result = ReplyJson::array();
    for (const PythonJson& element : *array) result.push_back(to_reply_json(element));
    return result;
  }
  if (const PythonJson::Object* object = value.as_object()) {
    // Names differ already, so there is no need to look for each before it is added.
    ReplyJson::object_t result;
    for (const PythonJson::Member& member : *object) {
      result.emplace_back(member.name, to_reply_json(member.value));
    }
    return result;
  }
  return {};
}

std::string data_event(const ReplyJson& json) { return fmt::format("data: {}\n\n", json_text(json)); }

std::string typed_event(const ReplyJson& json) {
  return fmt::format("event: {}\ndata: {}\n\n", json["type"].get_ref<const std::string&>(), json_text(json));
}

std::string_view finish_reason(ReplyEnd end) {
  switch (end) {
    case ReplyEnd::kStopToken:
    case ReplyEnd::kStopString:
      return "stop";
    case ReplyEnd::kToolCalls:
      return "tool_calls";
    case ReplyEnd::kRepetition:
      return "repetition";
    case ReplyEnd::kLength:
    case ReplyEnd::kCancelled:
    case ReplyEnd::kFailed:
      break;
  }
  return "length";
}

ReplyJson finish_details(std::size_t num_dropped_calls) {
  return {{"type", "malformed_tool_call"}, {"dropped_calls", num_dropped_calls}};
}

double printable_logprob(double logprob) {
  constexpr double kLowest = -9999;
  return logprob > kLowest ? std::min(logprob, 0.0) : kLowest;  // NaN is not above
}

ReplyJson logprob_json(const TokenLogprobs& token) {
  ReplyJson json = token_json(token.token);
  ReplyJson& top = json["top_logprobs"] = ReplyJson::array();
  for (const TokenText& other : token.top) top.push_back(token_json(other));
  return json;
}

ReplyJson openai_error(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? ReplyJson() : ReplyJson(text); };
  return {{"message", error.message},
          {"type", error.type},
          {"param", or_null(error.param)},
          {"code", or_null(error.code)}};
}

}  // namespace baleen
