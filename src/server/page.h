/// The chat page, built from web/ and carried in the binary.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// The page as one server gives it, and the content security policy that stands in it and beside it.
struct ServedPage {
  std::string html;    ///< one HTML file that loads nothing else, but the PDF reader when a PDF is attached
  std::string policy;  ///< for the header
};

/// `mcp_origins`: where the MCP servers may be that the page speaks to, beside its own origin.
/// "https://tools.example", with a port perhaps or `:*` for any; "loopback": every port of the reader's
/// machine; "none", alone: nowhere. Empty is "loopback". Throws `Error` for anything else.
[[nodiscard]] ServedPage served_page(std::span<const std::string> mcp_origins);

/// The script of the page's worker that reads PDF files. Lives as long as the program.
[[nodiscard]] std::string_view pdf_reader_script();
/// The licences of the libraries that the program contains and of the packages that the page contains, as
/// plain text. Lives as long as the program.
[[nodiscard]] std::string_view third_party_notices();

}  // namespace baleen
