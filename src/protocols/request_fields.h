/// Typed reading of a request's JSON: every getter checks, and the first thing wrong stays as the refusal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/typed_fields.h"
#include "protocols/api_request.h"
#include "protocols/protocol.h"

namespace baleen {

/// The refusal of one request: set once, by what is found wrong first.
using FirstError = std::optional<ApiError>;

struct RequestNotation {
  using Value = PythonJson;
  [[nodiscard]] static std::optional<std::int64_t> whole(const PythonJson& value);
  /// NaN and infinities are numbers here, which no range takes.
  [[nodiscard]] static std::optional<double> real(const PythonJson& value);
  [[nodiscard]] static std::optional<bool> flag(const PythonJson& value);
  [[nodiscard]] static const std::string* text(const PythonJson& value) { return value.as_string(); }
};

/// The fields of one object. Null counts as absent, as in all these protocols. After a refusal getters go on
/// returning what they can (or nothing), so that parsing code needs no branches; its caller looks at the
/// error in the end. Points into the JSON and the error given; cheap to make.
class RequestFields : public TypedFields<RequestFields, RequestNotation> {
 public:
  /// `path` names the object in sentences, e.g. "messages[2]"; empty for the body itself. Refuses what is no
  /// object.
  RequestFields(const PythonJson& object, std::string path, FirstError& error);

  /// The field's value; nullptr when absent or null.
  [[nodiscard]] const PythonJson* find(std::string_view name, std::string_view expected = {}) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// The object itself.
  [[nodiscard]] const PythonJson& value() const { return object_; }
  /// All members, nulls included; none where it is no object.
  [[nodiscard]] const PythonJson::Object& members() const;

  [[nodiscard]] const std::string* text(std::string_view name) const {
    return TypedFields::text(name, "a string");
  }
  /// Refuses when absent; empty then.
  [[nodiscard]] std::string required_text(std::string_view name) const;
  /// Takes 7 and 7.0, not 7.5.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t min,
                                                    std::int64_t max) const;
  [[nodiscard]] std::optional<double> number(std::string_view name, double min, double max) const;
  /// nullptr when absent. Refuses more than `max_size` elements.
  [[nodiscard]] const PythonJson::Array* list(std::string_view name, std::size_t max_size) const;
  [[nodiscard]] const PythonJson::Object* object(std::string_view name) const;
  /// The fields of an object that may be absent.
  [[nodiscard]] std::optional<RequestFields> fields(std::string_view name) const;
  /// A name of a function or schema: letters, digits, - and _, at most `kMaxNameBytes`. Refuses when absent.
  [[nodiscard]] std::string required_name(std::string_view name) const;

  /// "messages[2].content"; the object's own path for an empty name.
  [[nodiscard]] std::string path(std::string_view name = {}) const;
  /// "messages[2].content[3]".
  [[nodiscard]] std::string path(std::string_view name, std::size_t idx) const;

  void refuse(std::string_view name, std::string_view what, const PythonJson& found) const;
  /// Refuses the field; `sentence` goes on after "path: ".
  void refuse(std::string_view name, std::string_view sentence) const;
  /// The same for a value inside the field, whose whole path is given.
  void refuse_at(std::string path, std::string_view sentence) const;
  /// "path: expected ..., found ..."; names a string's text, of anything else the kind.
  void expected(std::string_view name, std::string_view what) const;
  /// Refuses the field if it is there.
  void refuse_if_present(std::string_view name, std::string_view sentence) const;

  [[nodiscard]] FirstError& error() const { return error_; }

 private:
  const PythonJson& object_;
  std::string path_;
  FirstError& error_;
};

inline constexpr std::size_t kMaxNameBytes = 128;
/// Letters, digits, - and _.
[[nodiscard]] bool is_name_character(char c);

/// A refusal about the value at `path`: "path: sentence".
[[nodiscard]] ApiError invalid_request(std::string path, std::string_view sentence);

/// For sentences: a short string or number as it is, of anything else the kind; "nothing" for nullptr.
[[nodiscard]] std::string describe(const PythonJson* value);
[[nodiscard]] std::string describe(std::string_view text);

/// Reads a body: JSON, an object, the model served (or any, where the context says so) or none named. `read`
/// then takes its fields into the request.
[[nodiscard]] ApiResult<ApiRequest> parse_body(
    std::string_view body, const ApiContext& context,
    const std::function<void(const RequestFields& fields, ApiRequest& request)>& read);

}  // namespace baleen
