/// The one reader of typed fields, whatever they stand in: JSON of files and of requests, TOML.
///
/// A notation says what one of its values holds:
///
///     struct Notation {
///       using Value = ...;
///       static std::optional<std::int64_t> whole(const Value&);  // a whole number that fits
///       static std::optional<double> real(const Value&);         // any number
///       static std::optional<bool> flag(const Value&);
///       static const std::string* text(const Value&);
///     };
///
/// and an object where its fields are and what becomes of a wrong one:
///
///     class Object : public TypedFields<Object, Notation> {
///       const Value* find(const auto& key, std::string_view expected) const;  // null: absent
///       void refuse(const auto& key, std::string_view expected, const Value& found) const;
///     };
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"

namespace baleen {

// Whether a value is in a range, and its words in a sentence; other types of ranges bring their own.
[[nodiscard]] inline bool holds(const WholeRange& range, std::int64_t value) {
  return value >= range.min && value <= range.max;
}
[[nodiscard]] inline bool holds(const RealRange& range, double value) { return range.contains(value); }
[[nodiscard]] inline std::string whole_words(const WholeRange& range) { return range_text(range); }
[[nodiscard]] inline std::string real_words(const RealRange& range) { return range_text(range); }

/// The whole number that a real one is; nothing where it is none, or too large to be exact.
[[nodiscard]] inline std::optional<std::int64_t> whole_value(double value) {
  constexpr double kMaxExact = 9007199254740992.0;  // 2^53
  if (!(std::fabs(value) <= kMaxExact) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

template <class Object, class Notation>
class TypedFields {
 public:
  using Value = typename Notation::Value;

  // The value of a field; nothing where it is absent or refused.
  template <class Range>
  [[nodiscard]] std::optional<std::int64_t> whole(const auto& key, const Range& range) const {
    return read(key, whole_words(range), [&](const Value& value) {
      const std::optional<std::int64_t> found = Notation::whole(value);
      return found && holds(range, *found) ? found : std::nullopt;
    });
  }
  template <class Range>
  [[nodiscard]] std::optional<double> real(const auto& key, const Range& range) const {
    return read(key, real_words(range), [&](const Value& value) {
      const std::optional<double> found = Notation::real(value);
      return found && holds(range, *found) ? found : std::nullopt;
    });
  }
  [[nodiscard]] std::optional<bool> flag(const auto& key) const {
    return read(key, "true or false", &Notation::flag);
  }
  /// Null instead of nothing. `expected`: what the text is of.
  [[nodiscard]] const std::string* text(const auto& key, std::string_view expected = "a text") const {
    const auto found = read(key, expected, [](const Value& value) {
      const std::string* text = Notation::text(value);
      return text == nullptr ? std::nullopt : std::optional(text);
    });
    return found.value_or(nullptr);
  }

  // The same into a variable, which keeps its value where there is none.
  template <std::integral T, class Range>
  void take(const auto& key, T& value, const Range& range) const {
    if (const auto found = whole(key, range)) value = static_cast<T>(*found);
  }
  template <class Range>
  void take(const auto& key, std::optional<std::int64_t>& value, const Range& range) const {
    if (const auto found = whole(key, range)) value = found;
  }
  template <class Range>
  void take(const auto& key, double& value, const Range& range) const {
    if (const auto found = real(key, range)) value = *found;
  }
  void take(const auto& key, bool& value) const {
    if (const auto found = flag(key)) value = *found;
  }
  void take(const auto& key, std::string& value) const {
    if (const std::string* found = text(key)) value = *found;
  }

 private:
  template <class Get>
  auto read(const auto& key, std::string_view expected, const Get& get) const
      -> decltype(get(std::declval<const Value&>())) {
    const auto& object = static_cast<const Object&>(*this);
    const Value* value = object.find(key, expected);
    if (value == nullptr) return std::nullopt;
    auto found = get(*value);
    if (!found) object.refuse(key, expected, *value);
    return found;
  }
};

}  // namespace baleen
