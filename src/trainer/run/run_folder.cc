#include "trainer/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kRemoved = ".removed-";

/// What this program wrote or renamed in a run's folder and had no time to put in place or to remove: a log
/// (AtomicFileWriter), a checkpoint or a model (StagedFolder), an old checkpoint.
bool is_leftover(std::string_view name) {
  constexpr std::size_t kRandomLetters = 6;
  if (name.starts_with(kRemoved)) return true;
  if (name.size() <= kRandomLetters) return false;
  const std::string_view stem = name.substr(0, name.size() - kRandomLetters);
  return stem == "log.jsonl.tmp-" || stem == ".model.partial-" ||
         (stem.starts_with(".step-") && stem.ends_with(".partial-"));
}

}  // namespace

RunFolder::RunFolder(const fs::path& folder, bool is_first_rank) : path_(fs::absolute(folder)) {
  if (!is_first_rank) return;
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail("{}: cannot create the folder of the run: {}", path_.string(), error.message());
  const fs::path lock = path_ / "lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail("{}: cannot be written: {}", lock.string(), std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    fail(
        "{}: another process trains in this folder; wait for its end, or name another folder (‹output "
        "folder›)",
        path_.string());
  }
  remove_leftovers();
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::remove_leftovers() const {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored))
    if (is_leftover(entry.path().filename().string())) found.push_back(entry.path());
  for (const fs::path& leftover : found) fs::remove_all(leftover, ignored);
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
  return path_ / fmt::format("{}{:09}", kPrefix, step);
}

std::vector<std::int64_t> RunFolder::checkpoints() const {
  std::vector<std::int64_t> steps;
  if (!fs::exists(path_)) return steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
    if (error == std::errc{} && rest == end) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

void RunFolder::remove_old_checkpoints(std::int64_t keep) const {
  const std::vector<std::int64_t> steps = checkpoints();
  const auto num_old = static_cast<std::int64_t>(steps.size()) - keep;
  for (std::int64_t i = 0; i < num_old; ++i) {
    // Under another name first: a removal that is cut short leaves nothing that looks like a checkpoint.
    const fs::path folder = checkpoint(steps[static_cast<std::size_t>(i)]);
    const fs::path removed = path_ / fmt::format("{}{}", kRemoved, folder.filename().string());
    std::error_code error;
    fs::rename(folder, removed, error);
    fs::remove_all(error ? folder : removed, error);
  }
}

}  // namespace baleen
