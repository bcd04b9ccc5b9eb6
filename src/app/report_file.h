/// Files that commands of the simulator write beside what they print.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// Writes `text` to `path`, whole or not at all, and says so on standard error, with how to open it. Throws
/// `Error`.
void write_report_file(const std::string& path, std::string_view text, std::string_view how_to_open);

}  // namespace baleen
