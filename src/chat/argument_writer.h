/// The arguments of one call as JSON text that grows while the model writes them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "chat/argument_types.h"

namespace baleen {

/// Writes `{"key": value, ...}`. A string flows as it comes; any other value is written when it is whole, because only
/// then is it certain to be JSON. Whatever is fed, what was taken and `close` make one JSON object.
class ArgumentWriter {
 public:
  /// `parameters`: the tool's schema, which must outlive this.
  explicit ArgumentWriter(const PythonJson& parameters) : parameters_(parameters) {}

  /// How a value ended. kImplied: by the next tag instead of its own, so the newline before that is not its own.
  enum class End { kClosed, kImplied, kCut };

  /// `is_string`: as the model said, if it did. A key that came before is passed over with its value.
  void begin_value(std::string_view key, std::optional<bool> is_string);
  /// Whole characters.
  void append(std::string_view text);
  /// A cut string is kept as far as it came; any other cut value is dropped, since part of a number is another number.
  void end_value(End end);
  /// After the last value. `cut` as in `end_value`.
  void close();
  /// Instead of any value: the members of a JSON object. False, changing nothing, if it is none.
  bool take_object(std::string_view text);

  [[nodiscard]] bool has_key(std::string_view key) const { return keys_.contains(std::string(key)); }
  [[nodiscard]] bool has_keys() const { return !keys_.empty(); }
  /// The value being written has no text yet but white space.
  [[nodiscard]] bool value_is_blank() const { return !has_text_; }
  [[nodiscard]] std::string_view key() const { return key_; }
  /// What is new since the last time.
  [[nodiscard]] std::string take_text();
  [[nodiscard]] std::size_t num_repairs() const { return num_repairs_; }

 private:
  void write_key();
  void write_string(std::string_view text);
  [[nodiscard]] std::string json_of(std::string_view text);

  const PythonJson& parameters_;
  std::unordered_set<std::string> keys_;
  std::string out_ = "{";
  std::size_t num_written_ = 0;
  std::size_t num_repairs_ = 0;

  // The value being written.
  std::string key_;
  std::optional<bool> is_string_;
  ArgumentTypes types_;
  bool is_dropped_ = false;
  bool streams_ = false;  ///< a string, written as it comes
  bool has_text_ = false;
  bool is_open_ = false;  ///< the key and the opening quotation mark are written
  std::string waiting_;   ///< all of it, or of a string what may not belong to it: white space at an end
};

}  // namespace baleen
