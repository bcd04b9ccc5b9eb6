/// The arguments of one call that may be damaged: parameters or a JSON object, to JSON of the declared types.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace baleen {

/// What cannot be read in one way only makes the arguments doubtful: the call must not be made.
class RepairedArguments {
 public:
  /// `parameters`: the tool's schema, which must outlive this.
  explicit RepairedArguments(const PythonJson& parameters) : parameters_(&parameters) {}

  /// One parameter. `is_string`: as the model said, if it did. An empty value of no string is no argument;
  /// the same value again is passed over.
  void add(const std::string& key, std::optional<bool> is_string, std::string_view text);
  /// The members of an object that stands for the arguments: a repair.
  void add_members(const PythonJson::Object& members);

  /// The declared key that `name` means: itself; but for white space, case and separators the only one;
  /// without a name the only one there is. Otherwise `name`.
  [[nodiscard]] std::optional<std::string> key_of(const std::optional<std::string>& name) const;
  /// Whether a parameter `key` may still come: declared and not there; where nothing is declared, any that is
  /// not there.
  [[nodiscard]] bool may_follow(const std::string& key) const;
  [[nodiscard]] bool declares_any() const;
  [[nodiscard]] bool declares(std::string_view key) const;
  [[nodiscard]] bool is_empty() const { return arguments_.empty(); }
  [[nodiscard]] bool is_doubtful() const { return is_doubtful_; }
  [[nodiscard]] std::size_t num_repairs() const { return num_repairs_; }
  /// Whether a call with these arguments may be made. `is_repaired`: other things about the call were
  /// repaired.
  [[nodiscard]] bool may_be_called(bool is_repaired) const;
  /// One JSON object.
  [[nodiscard]] std::string json() const;

 private:
  struct Argument {
    std::string key, json;
  };

  [[nodiscard]] const PythonJson& schema_of(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> json_of(std::string_view text, std::optional<bool> is_string,
                                                   const PythonJson& schema);
  [[nodiscard]] bool hides_parameter(const std::string& key, std::string_view text) const;
  void put(const std::string& key, std::string json);

  const PythonJson* parameters_;
  std::vector<Argument> arguments_;
  std::size_t num_repairs_ = 0;
  bool is_doubtful_ = false;
};

/// The arguments that a body of a call of the tool `name` means, in one of its readings: the members of an
/// object, or what a member such as "arguments" or "input" wraps, the tool's name beside it or not; whichever
/// alone may be called. A schema that names such a member itself is fit by the members. Nothing for none or
/// several.
[[nodiscard]] std::optional<RepairedArguments> arguments_of_bodies(std::span<const PythonJson> bodies,
                                                                   std::string_view name,
                                                                   const PythonJson& parameters);

/// Equal for names that differ only in case, `-`, `_`, spaces, and what is put around a name: quotation
/// marks, brackets, `:`, `=`, `@`, `$`, a backslash.
[[nodiscard]] std::string plain_name(std::string_view name);

}  // namespace baleen
