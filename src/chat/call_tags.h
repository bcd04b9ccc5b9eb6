/// How a release spells the tags of tool calls. All else of the markup is the same in every release: the
/// token `｜DSML｜` before the name, the attributes, where newlines stand.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// Three names, and what follows from them.
struct CallTags {
  /// As they stand behind the token: "tool_calls", "invoke", "parameter".
  CallTags(std::string_view calls_name, std::string_view invoke_name, std::string_view parameter_name);

  std::string calls, invoke, parameter;  ///< the names

  // What parsers look for; without `>`, but for the end of a block.
  std::string calls_start;               ///< a block's opening tag and the blank line before it
  std::string calls_end;                 ///< `</｜DSML｜tool_calls>`
  std::string invoke_start, invoke_end;  ///< `<｜DSML｜invoke`, `</｜DSML｜invoke`
  std::string parameter_start;           ///< `<｜DSML｜parameter`
  std::string parameter_end;             ///< `/｜DSML｜parameter`: its `<` belongs to the value's pattern

  // Lines, as the format writes them.
  std::string calls_opening;                         ///< the blank line, the tag and its newline
  std::string invoke_opening, invoke_closing;        ///< up to the name's `"`; with the newline
  std::string parameter_opening, parameter_closing;  ///< up to the name's `"`; with the newline

  /// What stands before the tool schemas: how to call tools, by an example in these tags.
  std::string tools_head;
};

/// Every release's, each once.
[[nodiscard]] std::span<const CallTags> all_call_tags();
/// `<｜DSML｜tool_calls>`: of all releases of V4.
[[nodiscard]] const CallTags& joined_call_tags();
/// `<｜DSML｜ calls>`, `<｜DSML｜ invoke ..>`, `<｜DSML｜ parameter ..>`: of V4.1.
[[nodiscard]] const CallTags& spaced_call_tags();

}  // namespace baleen
