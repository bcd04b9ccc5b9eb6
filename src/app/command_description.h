/// What the program's commands take, as plain data: shell completions and the manual page are written from
/// it, so that they name what the parser accepts.
#pragma once

#include <string>
#include <vector>

namespace baleen {

struct OptionDescription {
  std::vector<std::string> names;  ///< as typed: "-t", "--threads"; empty where it is a position alone
  std::string position;            ///< the name of a position, or empty
  std::string value;  ///< what the help prints for its value: "N", "PATH", "fp8|bf16"; empty for flags
  std::string text;   ///< may have several lines; the first is the summary
  bool repeatable = false;

  [[nodiscard]] bool takes_value() const { return !value.empty(); }
  [[nodiscard]] bool takes_path() const { return value == "PATH"; }
  /// The values of a choice; empty where the value is free.
  [[nodiscard]] std::vector<std::string> choices() const;
  /// The first line of `text`.
  [[nodiscard]] std::string summary() const { return text.substr(0, text.find('\n')); }
};

struct CommandDescription {
  std::string name;
  std::string text;
  std::string footer;
  std::vector<OptionDescription> options;  ///< listed in the order of the help; positions among them
  std::vector<CommandDescription> commands;
};

}  // namespace baleen
