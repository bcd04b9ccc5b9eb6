/// What is installed beside the program and written by itself: `baleen completions`, `baleen man`, `baleen
/// notices`.
#pragma once

namespace baleen {

class Options;

/// `program` must outlive its `parse`, as a command here prints what all its commands take.
void add_document_commands(Options& program);

}  // namespace baleen
