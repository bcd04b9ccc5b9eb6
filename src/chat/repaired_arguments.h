/// The arguments of one call that may be damaged: parameters or a JSON object, to JSON of the declared types.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/argument_types.h"

namespace baleen {

/// What cannot be read in one way only makes the arguments doubtful: the call must not be made.
class RepairedArguments {
 public:
  /// `parameters`: the tool's schema, which must outlive this.
  explicit RepairedArguments(const PythonJson& parameters) : parameters_(parameters) {}

  /// One parameter. `is_string`: as the model said, if it did. An empty value of no string is no argument; the same
  /// value again is passed over.
  void add(const std::string& key, std::optional<bool> is_string, std::string_view text);
  /// Instead of any parameter: a text that is the arguments' JSON object, perhaps in a code fence, perhaps as
  /// {"name": `tool_name`, "arguments": {...}}. False, changing nothing, if it is none.
  [[nodiscard]] bool take_object(std::string_view text, std::string_view tool_name);
  /// The members of an object that stands for the arguments.
  void add_members(const PythonJson::Object& members);

  /// The declared key that `name` means: itself; but for white space, case and separators the only one; without a name
  /// the only one there is. Otherwise `name`.
  [[nodiscard]] std::optional<std::string> key_of(const std::optional<std::string>& name) const;
  /// Whether a parameter `key` may still come: declared and not there; where nothing is declared, any that is not there.
  [[nodiscard]] bool may_follow(const std::string& key) const;
  [[nodiscard]] bool declares_any() const { return declared_properties(parameters_) != nullptr; }
  [[nodiscard]] bool declares(std::string_view key) const;
  [[nodiscard]] bool is_empty() const { return arguments_.empty(); }
  [[nodiscard]] bool is_doubtful() const { return is_doubtful_; }
  [[nodiscard]] std::size_t num_repairs() const { return num_repairs_; }
  /// One JSON object.
  [[nodiscard]] std::string json() const;

 private:
  struct Argument {
    std::string key, json;
  };

  [[nodiscard]] std::optional<std::string> json_of(std::string_view text, std::optional<bool> is_string,
                                                   const ArgumentTypes& types);
  [[nodiscard]] bool hides_parameter(const std::string& key, std::string_view text) const;
  void put(const std::string& key, std::string json);

  const PythonJson& parameters_;
  std::vector<Argument> arguments_;
  std::size_t num_repairs_ = 0;
  bool is_doubtful_ = false;
};

/// Equal for names that differ only in case, `-`, `_`, spaces.
[[nodiscard]] std::string plain_name(std::string_view name);

}  // namespace baleen
