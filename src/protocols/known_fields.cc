#include "protocols/known_fields.h"

#include <algorithm>

namespace baleen {
namespace {

bool asks_for_nothing(const PythonJson& value, std::string_view harmless) {
  if (const bool* flag = value.as_bool(); flag != nullptr && !*flag) return true;
  if (const std::string* text = value.as_string(); text != nullptr && text->empty()) return true;
  if (const PythonJson::Array* list = value.as_array(); list != nullptr && list->empty()) return true;
  if (harmless.empty()) return false;
  const Result<PythonJson> other = parse_python_json(harmless);
  if (const auto number = RequestNotation::real(value)) return RequestNotation::real(other.value()) == number;
  return dump_python_json(value) == dump_python_json(other.value());
}

}  // namespace

void check_known_fields(const RequestFields& body, ApiRequest& request) {
  const std::span<const KnownField> known = request.protocol->known_fields();
  for (const PythonJson::Member& member : body.members()) {
    if (member.value.is_null()) continue;
    const auto field = std::ranges::find(known, std::string_view(member.name), &KnownField::name);
    if (field == known.end()) {
      request.ignored.push_back(member.name);
    } else if (field->use == KnownField::Use::kRefused && !asks_for_nothing(member.value, field->harmless)) {
      return body.refuse(member.name, field->reason);
    }
  }
}

}  // namespace baleen
