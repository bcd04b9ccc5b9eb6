/// The chat page, built from web/ and carried in the binary.
#pragma once

#include <string_view>

namespace baleen {

/// One HTML file that loads nothing else. Lives as long as the program.
[[nodiscard]] std::string_view page_html();
/// The licences of the libraries that the program contains and of the packages that the page contains, as
/// plain text. Lives as long as the program.
[[nodiscard]] std::string_view third_party_notices();

}  // namespace baleen
