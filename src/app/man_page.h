/// The manual page, section 1.
#pragma once

#include <string>

namespace baleen {

struct CommandDescription;

/// In roff with the man macros; `version` goes to its foot.
[[nodiscard]] std::string man_page(const CommandDescription& program, const std::string& version);

}  // namespace baleen
