#include "app/data_files.h"

#include <system_error>

namespace baleen {

namespace fs = std::filesystem;

namespace {

/// What tells this repository's root from any other folder.
constexpr const char* kRootMark = "src/app/data_files.h";

}  // namespace

fs::path data_file(const fs::path& name) {
  std::error_code ignored;
  return data_file_of(fs::read_symlink("/proc/self/exe", ignored), name);
}

fs::path data_file_of(const fs::path& program, const fs::path& name) {
  std::error_code ignored;
  const fs::path installed = program.parent_path().parent_path() / "share" / "baleen" / name;
  if (fs::exists(installed, ignored)) return installed;
  for (fs::path folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / kRootMark, ignored) && fs::exists(folder / name, ignored)) return folder / name;
  }
  return installed;
}

}  // namespace baleen
