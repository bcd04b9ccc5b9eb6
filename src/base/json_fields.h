/// Typed fields of JSON objects in files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/typed_fields.h"

namespace baleen {

struct JsonNotation {
  using Value = nlohmann::ordered_json;
  /// 7.0 too: JSON has one kind of number.
  [[nodiscard]] static std::optional<std::int64_t> whole(const Value& value);
  [[nodiscard]] static std::optional<double> real(const Value& value);
  [[nodiscard]] static std::optional<bool> flag(const Value& value);
  [[nodiscard]] static const std::string* text(const Value& value);
};

/// Throws `Error`, "LABEL.name: expected ...; found ...", for a field of a wrong type or value. Points to the
/// object.
class JsonFields : public TypedFields<JsonFields, JsonNotation> {
 public:
  /// Throws `Error` for what is no object.
  JsonFields(const nlohmann::ordered_json& object, std::string label);

  /// Null where it is absent.
  [[nodiscard]] const nlohmann::ordered_json* find(std::string_view name,
                                                   std::string_view expected = {}) const;
  [[noreturn]] void refuse(std::string_view name, std::string_view expected,
                           const nlohmann::ordered_json& found) const;
  /// Throws `Error` where it is absent.
  [[nodiscard]] const nlohmann::ordered_json& at(std::string_view name) const;
  [[nodiscard]] JsonFields fields(std::string_view name) const;
  /// `take` of a field that must be there.
  void need(std::string_view name, auto& value, const auto&... range) const {
    static_cast<void>(at(name));
    take(name, value, range...);
  }
  /// Throws `Error` for a field that was not looked up.
  void end() const;

  [[nodiscard]] const std::string& label() const { return label_; }
  /// "LABEL.name"
  [[nodiscard]] std::string label_of(std::string_view name) const;

 private:
  const nlohmann::ordered_json& object_;
  std::string label_;
  mutable std::vector<std::string> known_;  ///< names that were looked up
};

}  // namespace baleen
