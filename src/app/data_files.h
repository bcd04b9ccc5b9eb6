/// Files that come with the program: the bundled model, and the published figures that `simulate validate`
/// compares with.
#pragma once

#include <filesystem>

namespace baleen {

/// `name` as in the repository, e.g. "models/stories", found relative to the program itself, never to the
/// current folder: PREFIX/share/baleen/`name` for PREFIX/bin/baleen, and in a checkout the folder around the
/// build that has it. Links to the program are followed. Where it is in neither, the first of the two, so
/// that an error names the place to put it.
[[nodiscard]] std::filesystem::path data_file(const std::filesystem::path& name);

/// The same for a program at `program`.
[[nodiscard]] std::filesystem::path data_file_of(const std::filesystem::path& program,
                                                 const std::filesystem::path& name);

}  // namespace baleen
