/// The value of one parameter of a tool-call block, up to the tag that ends it.
#pragma once

#include <optional>
#include <string>

#include "chat/open_block.h"
#include "chat/repaired_arguments.h"

namespace baleen {

struct ReadValue {
  std::string text;
  bool is_doubtful = false;  ///< where it ends cannot be said
};

/// Reads behind the tag `opening` of the parameter `key`; the tag that ends the value is taken if it is the
/// value's own. `arguments`: those of the same call so far.
[[nodiscard]] ReadValue read_value(OpenBlock& block, const Markup& opening,
                                   const std::optional<std::string>& key, const RepairedArguments& arguments);

}  // namespace baleen
