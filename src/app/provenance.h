/// What made a file: for pages that outlive the terminal they were made in.
#pragma once

#include "plots/html_page.h"

namespace baleen {

/// The commit that the program was built from, with "-dirty" where files had been changed; "unknown" without
/// git.
[[nodiscard]] const char* program_revision();

/// The command line of this process, quoted for a shell, and the program's revision.
[[nodiscard]] Provenance provenance();

/// Arguments as a shell reads them back; the program's folder is left out.
[[nodiscard]] std::string shell_command(const std::vector<std::string>& arguments);

}  // namespace baleen
