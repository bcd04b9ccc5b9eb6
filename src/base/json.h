/// The one way into JSON: bounded in bytes, in nesting and in the number of values, so that no text of others
/// can exhaust the stack of what walks the values later (copies, comparisons and `dump` take stack for every
/// level), or the memory that destroying a list takes (the library moves its values to a second list, and
/// ends the program when it cannot). Only json.cc instantiates the parser.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"

NLOHMANN_JSON_NAMESPACE_BEGIN
template <typename BasicJsonType>
struct json_sax;
NLOHMANN_JSON_NAMESPACE_END

namespace baleen {

struct JsonLimits {
  std::size_t max_bytes = std::size_t{256} << 20;
  /// Objects and arrays inside one another. As deep as `PythonJson` goes; a level takes 0.2 to 0.5 KB of
  /// stack to walk.
  int max_depth = 1000;
  /// Of a tree; counted as commas, objects and arrays. A value takes 16 bytes and more, and as much again
  /// when its list is destroyed. `read_json` makes no tree and has no such limit.
  std::size_t max_values = std::size_t{1} << 22;
  bool comments = false;  ///< `//` and `/* */` are skipped
};

/// The value that all of `text` is. The failure says the byte, counted from 0, what was expected and what was
/// found there, or which limit is passed; it names no file. Numbers beyond a double's range are refused. Of
/// members of one name the last counts. Linear in the text, which is read twice: nesting first.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {});
/// The same with members in the order of the text.
[[nodiscard]] Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text,
                                                                const JsonLimits& limits = {});

/// Events instead of values, for texts that are too large to become a tree. What is not JSON goes to the
/// reader's `parse_error`; the return value is the sentence for a passed limit, and nothing was read then.
[[nodiscard]] std::optional<Failure> read_json(std::string_view text,
                                               nlohmann::json_sax<nlohmann::json>& reader,
                                               const JsonLimits& limits = {});

}  // namespace baleen
