#include "protocols/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace baleen {
namespace {

/// Sentences quote what they found up to here.
constexpr std::size_t kMaxQuotedBytes = 60;

/// As sentences to clients have it: numbers as JSON writes them.
struct JsonRange {
  WholeRange range;
};
bool holds(const JsonRange& one, std::int64_t value) { return holds(one.range, value); }
std::string whole_words(const JsonRange& one) {
  return fmt::format("a whole number from {} to {}", one.range.min, one.range.max);
}

}  // namespace

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

ApiError invalid_request(std::string path, std::string_view sentence) {
  std::string message = path.empty() ? std::string(sentence) : fmt::format("{}: {}", path, sentence);
  return {.status = 400, .param = std::move(path), .message = std::move(message)};
}

std::optional<double> RequestNotation::real(const PythonJson& value) {
  const PythonJson::Number* number = value.as_number();
  if (number == nullptr) return std::nullopt;
  const std::string_view text = number->text;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  double result = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), result);
  // Only integers with hundreds of digits get here.
  if (read.ec != std::errc()) return std::numeric_limits<double>::infinity();
  return result;
}

std::optional<std::int64_t> RequestNotation::whole(const PythonJson& value) {
  const PythonJson::Number* number = value.as_number();
  if (number == nullptr) return std::nullopt;
  const char* const end = number->text.data() + number->text.size();
  std::int64_t result = 0;
  const auto read = std::from_chars(number->text.data(), end, result);
  if (read.ec == std::errc() && read.ptr == end) return result;
  return whole_value(*real(value));
}

std::optional<bool> RequestNotation::flag(const PythonJson& value) {
  return value.as_bool() == nullptr ? std::nullopt : std::optional(*value.as_bool());
}

std::string describe(std::string_view text) {
  if (text.size() <= kMaxQuotedBytes) return quote_python_json(text);
  return fmt::format("a string of {} bytes", text.size());
}

std::string describe(const PythonJson* value) {
  if (value == nullptr) return "nothing";
  if (const std::string* text = value->as_string()) return describe(*text);
  if (const PythonJson::Number* number = value->as_number()) {
    if (number->text.size() <= kMaxQuotedBytes) return number->text;
    return fmt::format("a number of {} digits", number->text.size());
  }
  return std::string(value->kind());
}

RequestFields::RequestFields(const PythonJson& object, std::string path, FirstError& error)
    : object_(object), path_(std::move(path)), error_(error) {
  if (object_.as_object() == nullptr) expected("", "an object");
}

const PythonJson* RequestFields::find(std::string_view name, std::string_view /*expected*/) const {
  const PythonJson* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const PythonJson::Object& RequestFields::members() const {
  static const PythonJson::Object kNone;
  return object_.as_object() == nullptr ? kNone : *object_.as_object();
}

std::string RequestFields::path(std::string_view name) const {
  if (name.empty()) return path_;
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::string RequestFields::path(std::string_view name, std::size_t idx) const {
  return fmt::format("{}[{}]", path(name), idx);
}

void RequestFields::refuse(std::string_view name, std::string_view sentence) const {
  refuse_at(path(name), sentence);
}

void RequestFields::refuse_at(std::string path, std::string_view sentence) const {
  if (!error_) error_ = invalid_request(std::move(path), sentence);
}

void RequestFields::refuse(std::string_view name, std::string_view what, const PythonJson& found) const {
  refuse(name, fmt::format("expected {}, found {}", what, describe(&found)));
}

void RequestFields::expected(std::string_view name, std::string_view what) const {
  refuse(name,
         fmt::format("expected {}, found {}", what, describe(name.empty() ? &object_ : object_.find(name))));
}

void RequestFields::refuse_if_present(std::string_view name, std::string_view sentence) const {
  if (has(name)) refuse(name, sentence);
}

std::string RequestFields::required_text(std::string_view name) const {
  const std::string* value = text(name);
  if (value == nullptr) expected(name, "a string");
  return value == nullptr ? "" : *value;
}

std::optional<std::int64_t> RequestFields::integer(std::string_view name, std::int64_t min,
                                                   std::int64_t max) const {
  return whole(name, JsonRange{{min, max}});
}

std::optional<double> RequestFields::number(std::string_view name, double min, double max) const {
  return real(name, RealRange{.min = min, .max = max});
}

const PythonJson::Array* RequestFields::list(std::string_view name, std::size_t max_size) const {
  const PythonJson* value = find(name);
  if (value == nullptr) return nullptr;
  const PythonJson::Array* result = value->as_array();
  if (result == nullptr) {
    expected(name, "an array");
  } else if (result->size() > max_size) {
    refuse(name, fmt::format("{} elements, where at most {} are taken", result->size(), max_size));
    return nullptr;
  }
  return result;
}

const PythonJson::Object* RequestFields::object(std::string_view name) const {
  const PythonJson* value = find(name);
  if (value == nullptr) return nullptr;
  if (value->as_object() == nullptr) expected(name, "an object");
  return value->as_object();
}

std::optional<RequestFields> RequestFields::fields(std::string_view name) const {
  if (object(name) == nullptr) return std::nullopt;
  return RequestFields(*find(name), path(name), error_);
}

std::string RequestFields::required_name(std::string_view name) const {
  std::string result = required_text(name);
  const bool good =
      !result.empty() && result.size() <= kMaxNameBytes && std::ranges::all_of(result, is_name_character);
  if (!good) expected(name, fmt::format("1 to {} letters, digits, - or _", kMaxNameBytes));
  return result;
}

ApiResult<ApiRequest> parse_body(
    std::string_view body, const ApiContext& context,
    const std::function<void(const RequestFields& fields, ApiRequest& request)>& read) {
  const Result<PythonJson> json = parse_python_json(body);
  if (!json) return invalid_request("", fmt::format("the body is not JSON: {}", json.error()));
  if (json.value().as_object() == nullptr) {
    return invalid_request("",
                           fmt::format("the body must be a JSON object, not {}", describe(&json.value())));
  }
  FirstError error;
  const RequestFields fields(json.value(), "", error);
  ApiRequest request;
  request.client_key = context.client_key;
  request.prompt_profile = context.prompt_profile;
  // There is one model: whoever does not name it means that one.
  const std::string* model = fields.text("model");
  request.model = model != nullptr && !context.any_model ? *model : context.model;
  if (!error && request.model != context.model) {
    return ApiError{.status = 404,
                    .code = "model_not_found",
                    .param = "model",
                    .message = fmt::format("model: {} is not served here; this server has \"{}\"",
                                           describe(fields.find("model")), context.model)};
  }
  if (!error) read(fields, request);
  if (error) return *std::move(error);
  return request;
}

}  // namespace baleen
