#include "chat/meant_tool.h"

#include "chat/repaired_arguments.h"
#include "chat/spellings.h"
#include "chat/tool_namespace.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

/// A tool's name without what models put around it, which says no more than that it is a tool.
std::string_view without_namespace(std::string_view name) {
  static constexpr std::string_view kNamespaces[] = {"functions", "function",    "tools",   "tool",
                                                     "api",       "default_api", "default", "namespace"};
  static constexpr std::string_view kSeparators[] = {".", "::", ":", "/"};
  if (name.ends_with("()")) name.remove_suffix(2);
  if (const std::size_t colon = name.rfind(':');
      colon != std::string_view::npos && colon + 1 < name.size() &&
      name.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
    name.remove_suffix(name.size() - colon);  // run:0, the first call
  const bool is_quoted =
      name.size() > 2 && name.front() == name.back() && (name.front() == '"' || name.front() == '\'');
  if (is_quoted) name = name.substr(1, name.size() - 2);
  for (const std::string_view space : kNamespaces) {
    for (const std::string_view separator : kSeparators) {
      if (name.starts_with(space) && name.substr(space.size()).starts_with(separator))
        return without_namespace(name.substr(space.size() + separator.size()));
    }
  }
  return name;
}

}  // namespace

const DeclaredTool* meant_tool(std::string_view name, std::span<const DeclaredTool> tools) {
  const std::string plain = in_plain_spelling(name).text;
  const std::string_view alone = without_namespace(trimmed(plain));
  enum class Match { kExact, kAlmost, kWithoutNamespace };
  for (const Match match : {Match::kExact, Match::kAlmost, Match::kWithoutNamespace}) {
    const DeclaredTool* found = nullptr;
    for (const DeclaredTool& tool : tools) {
      const auto is_meant = [&](std::string_view candidate) {
        switch (match) {
          case Match::kExact:
            return candidate == tool.name;
          case Match::kAlmost:
            return plain_name(candidate) == plain_name(tool.name);
          case Match::kWithoutNamespace:
            break;
        }
        const std::size_t separator = tool.name.find(kNamespaceSeparator);
        return separator != std::string::npos &&
               candidate == std::string_view(tool.name).substr(separator + kNamespaceSeparator.size());
      };
      const bool is_it = is_meant(name) || is_meant(alone);
      if (!is_it) continue;
      if (found != nullptr) return nullptr;
      found = &tool;
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace baleen
