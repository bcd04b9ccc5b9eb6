#include "base/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/quoted_text.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxQuotedBytes = 60;

}  // namespace

std::optional<std::int64_t> JsonNotation::whole(const Json& value) {
  if (value.is_number_float()) return whole_value(value.get<double>());
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>()))
    return std::nullopt;
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::optional<double> JsonNotation::real(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::optional<bool> JsonNotation::flag(const Json& value) {
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

const std::string* JsonNotation::text(const Json& value) { return value.get_ptr<const std::string*>(); }

JsonFields::JsonFields(const Json& object, std::string label) : object_(object), label_(std::move(label)) {
  if (!object.is_object()) fail("{}: expected an object, found {}", label_, object.type_name());
}

const Json* JsonFields::find(std::string_view name, std::string_view /*expected*/) const {
  known_.emplace_back(name);
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void JsonFields::refuse(std::string_view name, std::string_view expected, const Json& found) const {
  fail("{}: expected {}; found {}", label_of(name), expected, shortened_text(found.dump(), kMaxQuotedBytes));
}

const Json& JsonFields::at(std::string_view name) const {
  const Json* found = find(name);
  if (found == nullptr) fail("{}: missing", label_of(name));
  return *found;
}

JsonFields JsonFields::fields(std::string_view name) const { return {at(name), label_of(name)}; }

void JsonFields::end() const {
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::find(known_, name) == known_.end()) {
      fail("{}.{}: no such field; there are {}", label_, shortened_text(name, kMaxQuotedBytes),
           fmt::join(known_, ", "));
    }
  }
}

std::string JsonFields::label_of(std::string_view name) const {
  return fmt::format("{}.{}", label_, shortened_text(name, kMaxQuotedBytes));
}

}  // namespace baleen
