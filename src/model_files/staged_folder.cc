#include "model_files/staged_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "model/found_prompt_profile.h"

namespace baleen {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPartial = ".partial-";
constexpr std::size_t kRandomLetters = 6;

/// The files of a checkpoint beside its weights.
constexpr std::array<std::string_view, 11> kTextFiles{
    "config.json",    "generation_config.json",       "tokenizer.json",     "tokenizer_config.json",
    "vocab.json",     "special_tokens_map.json",      "merges.txt",         "added_tokens.json",
    "inference.json", "model.safetensors.index.json", "chat_template.jinja"};

bool starts_and_ends(std::string_view name, std::string_view start, std::string_view end) {
  return name.size() >= start.size() + end.size() && name.starts_with(start) && name.ends_with(end);
}

bool is_encoder(const fs::path& name) {
  return std::ranges::find(encoder_paths(), name, &fs::path::filename) != encoder_paths().end();
}

/// The folder of a release's encoder, with nothing else in it.
bool is_encoder_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (entry.path().filename() != encoder_paths().front().parent_path() || entry.is_symlink(ignored) ||
      !entry.is_directory(ignored))
    return false;
  const fs::directory_iterator files(entry.path(), ignored);
  return std::all_of(begin(files), end(files), [](const fs::directory_entry& file) {
    std::error_code unreadable;
    return is_encoder(file.path().filename()) && file.is_regular_file(unreadable);
  });
}

bool is_replaceable(const fs::directory_entry& entry, const std::vector<std::string>& names) {
  std::error_code ignored;
  if (is_encoder_folder(entry)) return true;
  if (!entry.is_regular_file(ignored) && !entry.is_symlink(ignored)) return false;
  const std::string name = entry.path().filename();
  const std::string_view written = std::string_view(name).substr(0, name.rfind(".tmp-"));
  if (std::ranges::find(kTextFiles, written) != kTextFiles.end()) return true;
  if (std::ranges::find(names, written) != names.end()) return true;
  return written == kSingleFileName || starts_and_ends(written, "model-", ".safetensors");
}

/// Names of what `folder` holds besides, the first few of them: "a, b and 3 more".
std::string unrelated_files(const fs::path& folder, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNamed = 3;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (!is_replaceable(entry, names)) found.push_back(entry.path().filename());
  std::ranges::sort(found);
  std::string text;
  for (std::size_t i = 0; i < std::min(kMaxNamed, found.size()); ++i) text += (i == 0 ? "" : ", ") + found[i];
  if (found.size() > kMaxNamed) text += fmt::format(" and {} more", found.size() - kMaxNamed);
  return text;
}

/// Removes a folder's checkpoint, and the folder unless it holds anything else.
void remove_checkpoint(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (is_replaceable(entry, names)) files.push_back(entry.path());
  for (const fs::path& file : files) fs::remove_all(file, ignored);
  fs::remove(folder, ignored);
}

/// The folder, locked for as long as the descriptor is open; -1 where another process has it or it is gone.
int lock_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return -1;
  struct stat info {};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && ::fstat(descriptor, &info) == 0 && info.st_nlink > 0)
    return descriptor;
  ::close(descriptor);
  return -1;
}

std::string partial_prefix(const fs::path& target) {
  return fmt::format(".{}{}", target.filename().string(), kPartial);
}

void remove_leftovers(const fs::path& target) {
  const std::string prefix = partial_prefix(target);
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && name.size() == prefix.size() + kRandomLetters)
      found.push_back(entry.path());
  }
  for (const fs::path& folder : found) {
    const int lock = lock_folder(folder);
    if (lock < 0) continue;
    fs::remove_all(folder, ignored);  // written by this program, or moved there by it to be removed
    ::close(lock);
  }
}

void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);  // some file systems cannot flush a folder, and need not
  ::close(descriptor);
}

/// The folder behind every link, absolute, also where its last parts do not exist yet.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  if (error) fail("{}: cannot be looked up: {}", path.string(), error.message());
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole;
}

bool is_inside(const fs::path& inner, const fs::path& outer) {
  const auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

void check_target(const fs::path& target, bool replace, const std::vector<std::string>& names,
                  const std::string& contents) {
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    fail("{}: is a file, expected a folder to write a {} to", target.string(), contents);
  const bool empty = fs::is_empty(target, error);
  if (error) fail("{}: cannot be read: {}", target.string(), error.message());
  if (empty) return;
  if (!replace) {
    fail("{}: not empty; name another folder, or pass ‹force› to replace the {} in it", target.string(),
         contents);
  }
  if (const std::string unrelated = unrelated_files(target, names); !unrelated.empty()) {
    fail("{}: holds more than a {} ({}), which ‹force› would delete; move that, or name another folder",
         target.string(), contents, unrelated);
  }
}

}  // namespace

StagedFolder::StagedFolder(const fs::path& target, bool replace, std::vector<std::string> names,
                           std::string contents)
    : target_(resolved(target)), replace_(replace), names_(std::move(names)), contents_(std::move(contents)) {
  check_target(target_, replace_, names_, contents_);
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (error) fail("{}: cannot create the folder: {}", target.string(), error.message());
  remove_leftovers(target_);
  std::string pattern = target_.parent_path() / (partial_prefix(target_) + "XXXXXX");
  if (::mkdtemp(pattern.data()) == nullptr)
    fail("{}: cannot create the folder: {}", target.string(), std::strerror(errno));
  path_ = pattern;
  lock_ = lock_folder(path_);
  const mode_t mask = ::umask(0);  // asking is only possible by setting
  ::umask(mask);
  ::chmod(path_.c_str(), 0777 & ~mask);
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void StagedFolder::commit() {
  flush_folder(path_);
  std::error_code error;
  const bool replaces = fs::exists(target_, error) && !fs::is_empty(target_, error);
  if (replaces) check_target(target_, replace_, names_, contents_);  // it took a while to come here
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), replaces ? RENAME_EXCHANGE : 0) != 0) {
    fail("{}: cannot put the finished {} in place: {}; nothing was changed", target_.string(), contents_,
         std::strerror(errno));
  }
  flush_folder(target_.parent_path());
  const fs::path earlier = std::exchange(path_, {});
  if (replaces) remove_checkpoint(earlier, names_);
}

void check_apart(const fs::path& in, const fs::path& out) {
  const fs::path from = resolved(in), to = resolved(out);
  std::error_code ignored;
  if (from == to || fs::equivalent(from, to, ignored))
    fail("{}: input and output are the same folder; name another output", out.string());
  if (is_inside(to, from) || is_inside(from, to))
    fail("{} and {}: one is inside the other; name another output", in.string(), out.string());
  for (const fs::directory_entry& entry : fs::directory_iterator(from, ignored)) {
    if (!entry.is_symlink(ignored)) continue;
    if (is_inside(resolved(entry.path()), to)) {
      fail("{}: a link into {}, which would be replaced while it is read; name another output",
           entry.path().string(), out.string());
    }
  }
}

}  // namespace baleen
