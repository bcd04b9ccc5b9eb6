#include "model_files/folder.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace baleen {

namespace fs = std::filesystem;

void check_output_folder(const fs::path& folder, bool force) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    fail("{}: is a file, expected a folder to write a checkpoint to", folder.string());
  const bool empty = fs::is_empty(folder, error);
  if (error) fail("{}: cannot be read: {}", folder.string(), error.message());
  if (!empty && !force) {
    fail("{}: not empty; name another folder, or pass --force to replace the checkpoint in it",
         folder.string());
  }
}

std::vector<TextFile> companion_files(const fs::path& folder) {
  std::vector<TextFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const fs::path name = entry.path().filename();
    const fs::path extension = name.extension();
    const bool wanted =
        extension == ".json" || extension == ".txt" || extension == ".jinja" || name.stem() == "LICENSE";
    if (!wanted || name == "config.json" || name == kIndexFileName) continue;
    files.push_back({name.string(), read_text_file(entry.path())});
  }
  std::sort(files.begin(), files.end(), [](const TextFile& a, const TextFile& b) { return a.name < b.name; });
  return files;
}

std::vector<TextFile> tokenizer_files(const fs::path& folder) {
  std::vector<TextFile> files{{"tokenizer.json", read_text_file(folder / "tokenizer.json")}};
  if (fs::exists(folder / "tokenizer_config.json")) {
    files.push_back({"tokenizer_config.json", read_text_file(folder / "tokenizer_config.json")});
  }
  return files;
}

}  // namespace baleen
