/// Calls of everyday tools, damaged as models of this family damage them: each case says which calls were
/// meant, and whether that is clear from what is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/message.h"

namespace baleen::test {

struct DamagedCalls {
  std::string kind;
  std::string text;             ///< of the reply; every special string in it is the token
  std::vector<ToolCall> meant;  ///< without ids
  bool is_clear = true;         ///< false: what was meant cannot be said, so no other call may come out
};

/// `rounds` cases of every kind, where the kind fits the calls that were drawn.
[[nodiscard]] std::vector<DamagedCalls> damaged_calls(std::uint32_t seed, int rounds);

}  // namespace baleen::test
