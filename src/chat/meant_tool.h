/// Which tool a name means that may be damaged.
#pragma once

#include <span>
#include <string_view>

#include "chat/reply_part.h"

namespace baleen {

/// The declared tool that `name` means: of that name; else, white space, case, separators and what models put
/// around a name apart ("functions.", "default_api:", "()"), the only one. nullptr for none or several.
[[nodiscard]] const DeclaredTool* meant_tool(std::string_view name, std::span<const DeclaredTool> tools);

}  // namespace baleen
