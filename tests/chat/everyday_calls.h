/// Calls of everyday tools as they are drawn for damage, and as a sound block.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/python_json.h"
#include "chat/reply_part.h"

namespace baleen::test {

using Random = std::mt19937;

[[nodiscard]] const std::vector<DeclaredTool>& everyday_tools();
[[nodiscard]] const DeclaredTool& tool_named(std::string_view name);

struct Parameter {
  std::string key, text;
  bool is_string = false;
  const PythonJson* schema = nullptr;
};

struct Call {
  ToolCall meant;
  std::vector<Parameter> parameters;
};

[[nodiscard]] Call drawn_call(Random& random);

/// A block in pieces, so that damage to markup never touches a value.
struct Piece {
  std::string text;
  bool is_tag = false;
};

[[nodiscard]] std::vector<Piece> block_of(const std::vector<Call>& calls);
[[nodiscard]] std::string joined(const std::vector<Piece>& pieces);
/// `text` with every `from` as `to`.
[[nodiscard]] std::string replaced(std::string text, std::string_view from, std::string_view to);

template <class T>
const T& pick(Random& random, const std::vector<T>& of) {
  return of[random() % of.size()];
}

}  // namespace baleen::test
