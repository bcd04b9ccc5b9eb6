#include "protocols/text_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/quoted_text.h"
#include "chat/message_json.h"
#include "protocols/conversation.h"

namespace baleen {
namespace {

/// Of a type that a client wrote, in a header and in a prompt.
constexpr std::size_t kMaxTypeBytes = 60;

/// Parts that are text by their type: they have a `text`, or are malformed.
constexpr std::array<std::string_view, 5> kTextTypes = {"text", "input_text", "output_text", "reasoning_text",
                                                        "summary_text"};

/// Data in base64 longer than this tells a reader nothing.
constexpr std::size_t kMaxWordBytes = 256;

bool is_base64(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("+/=_-\r\n").find(c) != std::string_view::npos;
}

/// Not for readers: encoded bytes, whatever they are.
bool is_encoded(std::string_view text) {
  return text.starts_with("data:") || (text.size() > kMaxWordBytes && std::ranges::all_of(text, is_base64));
}

/// Members that are for whoever sent the object.
bool is_sealed(std::string_view name) {
  return name.starts_with("encrypted") || name == "signature" || name == "cache_control";
}

/// Members of a whole part or item that say how it is kept, not what it says.
bool is_bookkeeping(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {"type", "id", "call_id", "tool_use_id",
                                                             "status"};
  return std::ranges::find(kNames, name) != kNames.end();
}

PythonJson readable(const PythonJson& value) {
  if (const std::string* text = value.as_string()) return is_encoded(*text) ? PythonJson("...") : value;
  if (const PythonJson::Array* list = value.as_array()) {
    PythonJson::Array kept;
    for (const PythonJson& element : *list) kept.push_back(readable(element));
    return kept;
  }
  const PythonJson::Object* object = value.as_object();
  if (object == nullptr) return value;
  PythonJson::Object kept;
  for (const PythonJson::Member& member : *object) {
    if (!is_sealed(member.name) && !member.value.is_null())
      kept.push_back({member.name, readable(member.value)});
  }
  return kept;
}

/// What people call it, where the type has a word of it.
std::string_view medium(std::string_view type) {
  static constexpr std::array<std::array<std::string_view, 2>, 7> kWords = {{{"image", "image"},
                                                                             {"screenshot", "image"},
                                                                             {"audio", "audio"},
                                                                             {"video", "video"},
                                                                             {"file", "file"},
                                                                             {"document", "document"},
                                                                             {"upload", "file"}}};
  for (const auto& [word, name] : kWords) {
    if (type.find(word) != std::string_view::npos) return name;
  }
  return {};
}

/// The name of a file, from the part or the object that the part wraps.
std::string name_of(const PythonJson& part) {
  for (const char* inside : {"", "file", "source", "resource"}) {
    const PythonJson* object = *inside == '\0' ? &part : part.find(inside);
    for (const char* name : {"filename", "title", "name"}) {
      const PythonJson* value = object == nullptr ? nullptr : object->find(name);
      if (value != nullptr && value->as_string() != nullptr && !value->as_string()->empty())
        return " " + quoted_text(*value->as_string());
    }
  }
  return "";
}

/// What stands in the prompt for a part without text.
std::string stand_in(const RequestFields& part, std::string_view type) {
  if (const std::string_view name = medium(type); !name.empty())
    return fmt::format("[{}{}: left out, this model reads text]", name, name_of(part.value()));
  const std::string said = readable_json(part.value());
  const std::string shown = shortened_text(type, kMaxTypeBytes);
  return said == "{}" ? fmt::format("[{}: left out, this model reads text]", shown)
                      : fmt::format("[{} {}]", shown, said);
}

/// Parts hold parts: a result a document, that its content. A text is copied at each level, so they are
/// bounded.
constexpr int kMaxPartDepth = 8;

/// Where a part stands.
struct Place {
  Speaker speaker = Speaker::kOthers;
  int depth = 0;  ///< how many parts are around it

  [[nodiscard]] Place inside() const { return {speaker, depth + 1}; }
};

std::string read_part_at(const RequestFields& part, Place place, std::vector<std::string>& ignored);

std::string read_parts(const RequestFields& fields, std::string_view name, const PythonJson::Array& parts,
                       Place place, std::vector<std::string>& ignored) {
  std::string whole;
  for (std::size_t i = 0; i < parts.size() && !fields.error(); ++i) {
    const RequestFields part(parts[i], fields.path(name, i), fields.error());
    if (!fields.error()) append_part(whole, read_part_at(part, place, ignored));
  }
  return whole;
}

/// A document's own text: {"type": "text", "data": ...} or {"type": "content", "content": ...}.
std::optional<std::string> source_text(const RequestFields& part, Place place,
                                       std::vector<std::string>& ignored) {
  const PythonJson* source = part.find("source");
  if (source == nullptr || source->as_object() == nullptr) return std::nullopt;
  const RequestFields inside(*source, part.path("source"), part.error());
  const PythonJson* type = inside.find("type");
  if (type == nullptr || type->as_string() == nullptr) return std::nullopt;
  if (*type->as_string() == "text") {
    const PythonJson* data = inside.find("data");
    if (data != nullptr && data->as_string() != nullptr) return *data->as_string();
  }
  const PythonJson* content = *type->as_string() == "content" ? inside.find("content") : nullptr;
  if (content != nullptr && content->as_string() != nullptr) return *content->as_string();
  if (content != nullptr && content->as_array() != nullptr)
    return read_parts(inside, "content", *content->as_array(), place.inside(), ignored);
  return std::nullopt;
}

/// Title, and the address that a search result has as its source, before a text.
std::string titled(const RequestFields& part, std::string text) {
  std::string whole;
  for (const char* name : {"title", "source", "url", "uri"}) {
    const PythonJson* value = part.find(name);
    if (value == nullptr || value->as_string() == nullptr || is_encoded(*value->as_string())) continue;
    if (!whole.empty()) whole += '\n';
    whole += *value->as_string();
  }
  append_part(whole, text);
  return whole;
}

std::optional<std::string> text_at(const RequestFields& part, Place place,
                                   std::vector<std::string>& ignored) {
  if (place.depth > kMaxPartDepth) return std::nullopt;
  for (const char* name : {"text", "content"}) {
    const PythonJson* value = part.find(name);
    if (value == nullptr) continue;
    if (const std::string* text = value->as_string()) return titled(part, *text);
    if (const PythonJson::Array* parts = value->as_array(); parts != nullptr && !parts->empty())
      return titled(part, read_parts(part, name, *parts, place.inside(), ignored));
  }
  if (std::optional<std::string> text = source_text(part, place, ignored))
    return titled(part, *std::move(text));
  // Content of the Model Context Protocol, as some clients hand it on.
  const PythonJson* resource = part.find("resource");
  const PythonJson* text = resource == nullptr ? nullptr : resource->find("text");
  if (text != nullptr && text->as_string() != nullptr) return *text->as_string();
  return std::nullopt;
}

std::string read_part_at(const RequestFields& part, Place place, std::vector<std::string>& ignored) {
  const std::string type = part.required_text("type");
  if (part.error()) return "";
  if (std::ranges::find(kTextTypes, type) != kTextTypes.end()) return part.required_text("text");
  if (type == "refusal") return part.required_text("refusal");
  if (std::optional<std::string> text = text_at(part, place, ignored)) return *std::move(text);
  pass_over(part, type, ignored);
  return place.speaker == Speaker::kModel ? "" : stand_in(part, type);
}

/// The place of the first image in a conversation, a message or a part; empty where there is none.
std::string image_within(const PythonJson& value, const std::string& path) {
  if (const PythonJson::Array* list = value.as_array()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (std::string found = image_within((*list)[i], fmt::format("{}[{}]", path, i)); !found.empty())
        return found;
    }
    return "";
  }
  const PythonJson* type = value.find("type");
  if (type != nullptr && type->as_string() != nullptr &&
      (is_image_type(*type->as_string()) || *type->as_string() == "computer_screenshot"))
    return path;
  for (const char* inside : {"content", "output", "source"}) {
    const PythonJson* part = value.find(inside);
    if (part == nullptr) continue;
    if (std::string found = image_within(*part, fmt::format("{}.{}", path, inside)); !found.empty())
      return found;
  }
  return "";
}

}  // namespace

void refuse_images(const RequestFields& fields, std::string_view name, const PromptProfile& profile) {
  const PythonJson* value = prompt_rules(profile).has_images ? fields.find(name) : nullptr;
  if (value == nullptr) return;
  if (const std::string place = image_within(*value, fields.path(name)); !place.empty())
    fields.refuse_at(place, kNoImages);
}

void pass_over(const RequestFields& object, std::string_view type, std::vector<std::string>& ignored) {
  ignored.push_back(fmt::format("{} ({})", object.path(), shortened_text(type, kMaxTypeBytes)));
}

std::string readable_json(const PythonJson& value) {
  PythonJson kept = readable(value);
  if (const PythonJson::Object* members = kept.as_object()) {
    PythonJson::Object rest;
    std::ranges::remove_copy_if(*members, std::back_inserter(rest), is_bookkeeping,
                                &PythonJson::Member::name);
    kept = std::move(rest);
  }
  return dump_python_json(kept);
}

std::optional<std::string> text_within(const RequestFields& part, std::vector<std::string>& ignored) {
  return text_at(part, {}, ignored);
}

std::string read_text_part(const RequestFields& part, std::vector<std::string>& ignored) {
  return read_part_at(part, {}, ignored);
}

std::string read_text_content(const RequestFields& fields, std::string_view name,
                              std::vector<std::string>& ignored, Speaker speaker) {
  const PythonJson* value = fields.find(name);
  if (value == nullptr) return "";
  if (const std::string* text = value->as_string()) return *text;
  if (const PythonJson::Array* parts = value->as_array())
    return read_parts(fields, name, *parts, {speaker}, ignored);
  fields.expected(name, "a string or an array of content parts");
  return "";
}

std::string required_text_content(const RequestFields& fields, std::string_view name,
                                  std::vector<std::string>& ignored, Speaker speaker) {
  if (!fields.has(name)) fields.expected(name, "a string or an array of content parts");
  return read_text_content(fields, name, ignored, speaker);
}

std::string read_tool_output(const RequestFields& fields, std::string_view name,
                             std::vector<std::string>& ignored) {
  const PythonJson* value = fields.find(name);
  if (value == nullptr || value->as_string() != nullptr) return read_text_content(fields, name, ignored);
  const auto is_part = [](const PythonJson& element) {
    const PythonJson* type = element.find("type");
    return type != nullptr && type->as_string() != nullptr;
  };
  if (const PythonJson::Array* list = value->as_array();
      list != nullptr && std::ranges::all_of(*list, is_part))
    return read_text_content(fields, name, ignored);
  if (value->as_object() != nullptr && is_part(*value))
    return read_text_part(RequestFields(*value, fields.path(name), fields.error()), ignored);
  return readable_json(*value);
}

}  // namespace baleen
