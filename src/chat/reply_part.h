/// What a reply consists of, and the tools that its calls may name.
#pragma once

#include <cstddef>
#include <string>

#include "chat/python_json.h"

namespace baleen {

/// A function that the request declared.
struct DeclaredTool {
  std::string name;
  PythonJson parameters;  ///< JSON schema; null when none was given
  bool strict = false;    ///< the client wants all of the schema held, or a refusal
  /// Whether a grammar of the reply's calls, if there is one, holds this tool's to `parameters`.
  bool is_held = true;
};

struct ReplyPart {
  enum class Kind {
    kReasoning,
    kContent,
    kCallBegin,      ///< text: the function's name
    kCallArguments,  ///< text: more of the arguments' JSON
    /// The arguments are complete and are a JSON object. Where it is missing at the reply's end, the call
    /// was cut: its arguments begin an object and are no JSON, and it must not be made.
    kCallEnd,
    kCallDropped,  ///< a call that is not made, because it was too damaged; content shows it. text: its name
                   ///< or ""
  };
  Kind kind;
  std::string text;
  /// Number of the call, from 0, where a part is one of the first three kinds about calls.
  std::size_t call_idx = 0;
  bool operator==(const ReplyPart&) const = default;
};

}  // namespace baleen
