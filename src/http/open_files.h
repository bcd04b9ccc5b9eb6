/// Every connection is an open file.
#pragma once

namespace baleen {

/// Raises the process's limit of open files to the highest it may set itself. Does nothing where that is
/// refused.
void raise_open_file_limit();

}  // namespace baleen
