/// Files of plots/page/ as the build puts them into the program.
#pragma once

#include <string_view>

namespace baleen {

[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();

}  // namespace baleen
